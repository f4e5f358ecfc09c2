//! Memory in groups of the same kind and size, and what the program did not free.

use super::ledger::{Held, Ledger, Side};
use crate::figures::{counted, size};
use crate::report::table::{Cell, Head, Table};
use crate::report::tally::KEPT;
use crate::report::walk::Ending;
use std::collections::BTreeMap;
use viewer::data::findings::{Cost, Finding};

#[derive(Default)]
struct Group {
    count: u64,
    bytes: u64,
    first: u64,
}

/// Allocations of one function and one size, most bytes first.
pub fn group<'x, 't: 'x>(head: Head, all: impl Iterator<Item = &'x Held<'t>>) -> Table {
    let mut table = Table::new(head);
    for ((held, ()), group) in grouped(all.map(|held| (held, ()))) {
        table.row([
            held.0.to_string().into(),
            Cell::Bytes(group.bytes),
            Cell::Count(group.count),
            Cell::Bytes(held.3),
            held.1.into(),
            Cell::Number(group.first),
            held.2.into(),
        ]);
    }
    table
}

type Same<'x> = (Side, &'static str, &'x str, u64);

fn grouped<'x, 't: 'x, End: Ord + Copy>(
    all: impl Iterator<Item = (&'x Held<'t>, End)>,
) -> Vec<((Same<'x>, End), Group)> {
    let mut groups: BTreeMap<(Same, End), Group> = BTreeMap::new();
    for (held, end) in all {
        let group = groups.entry(((held.side, held.family, held.function, held.bytes), end)).or_default();
        group.first = if group.count == 0 { held.call } else { group.first.min(held.call) };
        group.count += 1;
        group.bytes = group.bytes.saturating_add(held.bytes);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((same, _), group)| (same.0, std::cmp::Reverse(group.bytes), group.first));
    groups
}

/// What the program did not free itself.
#[derive(Default)]
pub struct Left<'t> {
    /// Went with its context.
    pub ended: Vec<Held<'t>>,
}

impl<'t> Left<'t> {
    fn all<'x>(&'x self, ledger: &'x Ledger<'t>) -> impl Iterator<Item = (&'x Held<'t>, &'static str)> {
        let live = ledger.live().map(|held| (held, "live when the trace ends"));
        let all = self.ended.iter().map(|held| (held, "with its context")).chain(live);
        all.map(|(held, end)| (held, if held.tried { "the call that should free it failed" } else { end }))
    }

    pub fn table(&self, head: Head, ledger: &Ledger<'t>, ending: &Ending<'t>) -> Table {
        let mut table = Table::new(head);
        for ((same, end), group) in grouped(self.all(ledger)) {
            table.row([
                same.0.to_string().into(),
                Cell::Bytes(group.bytes),
                Cell::Count(group.count),
                Cell::Bytes(same.3),
                same.1.into(),
                Cell::Number(group.first),
                end.into(),
                same.2.into(),
            ]);
        }
        if ending.trace.footer.is_none() {
            table.note("the trace was not closed: the program may have been cut off, or still be running");
        }
        table
    }

    pub fn finding(&self, ledger: &Ledger<'t>) -> Option<Finding> {
        let (mut count, mut bytes, mut first, mut most) = (0, 0u64, u64::MAX, Group::default());
        let groups = grouped(self.all(ledger).filter(|(held, _)| !held.tried));
        let firsts = groups.iter().map(|(_, group)| group.first).take(KEPT).collect();
        for ((_, _), group) in groups {
            count += group.count;
            bytes = bytes.saturating_add(group.bytes);
            first = first.min(group.first);
            if group.bytes > most.bytes {
                most = group;
            }
        }
        (count > 0).then(|| Finding {
            kind: "not_freed".into(),
            what: format!("{} in {} of memory not freed by the program", size(bytes), counted(count, "piece")),
            evidence: format!(
                "the first is call {first}; most of it: {} in {}, the first of them call {}",
                size(most.bytes),
                counted(most.count, "piece"),
                most.first
            ),
            next: "cutrace report -r memory".into(),
            cost: Cost::Memory(bytes),
            times: count,
            calls: firsts,
        })
    }
}
