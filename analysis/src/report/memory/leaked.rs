//! Memory in groups of the same kind and size, and the part that the program did not free.

use super::place::{Same, same};
use crate::findings::finding::{Cost, Finding};
use crate::report::walk::{Ending, Step};
use crate::tables::table::{Cell, Column, Head, Table, column};
use crate::tables::tally::{KEPT, listed};
use crate::text::figures::{counted, size};
use std::collections::{BTreeMap, HashSet};
use trace::Trace;
use trace::api::effect::Effect;
use trace::model::change::freed;
use trace::model::memory::{Allocation, End, Memory};

#[derive(Default)]
struct Group {
    bytes: u64,
    /// That got it, in order; there is one.
    calls: Vec<u64>,
}

impl Group {
    fn count(&self) -> u64 {
        self.calls.len() as u64
    }

    fn first(&self) -> u64 {
        self.calls.first().copied().unwrap_or(0)
    }
}

/// Allocations of one function and one size, most bytes first.
pub(crate) fn group<'x>(head: Head, trace: &Trace, all: impl Iterator<Item = &'x Allocation>) -> Table {
    let mut table = Table::new(head);
    for ((same, ()), group) in grouped(trace, all.map(|one| (one, ()))) {
        table.row([
            same.0.to_string().into(),
            Cell::Bytes(group.bytes),
            Cell::Count(group.count()),
            Cell::Bytes(same.3),
            same.1.into(),
            Cell::Number(group.first()),
            same.2.into(),
        ]);
    }
    table
}

fn grouped<'x, 't, End: Ord + Copy>(
    trace: &'t Trace,
    all: impl Iterator<Item = (&'x Allocation, End)>,
) -> Vec<((Same<'t>, End), Group)> {
    let mut groups: BTreeMap<(Same, End), Group> = BTreeMap::new();
    for (one, end) in all {
        let Some(same) = same(trace, one) else { continue };
        let group = groups.entry((same, end)).or_default();
        group.calls.push(one.call);
        group.bytes = group.bytes.saturating_add(same.3);
    }
    groups.values_mut().for_each(|group| group.calls.sort_unstable());
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((same, _), group)| (same.0, std::cmp::Reverse(group.bytes), group.first()));
    groups
}

pub(crate) const COLUMNS: &[Column] = WITH_CALLS.split_at(WITH_CALLS.len() - 1).0;
pub(crate) const WITH_CALLS: &[Column] = &[
    column("where", "where"),
    column("bytes", "bytes"),
    column("allocations", "allocations"),
    column("each", "each_bytes"),
    column("kind", "kind"),
    column("first call", "first_call"),
    column("how it ended", "end"),
    column("function", "function"),
    column("allocated by calls", "calls"),
];

/// The end of an object that the program did not free or destroy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum How {
    Live,
    /// A call that was to end it failed.
    Tried,
    WithContext,
}

impl How {
    /// `tried`: of what a call failed to end.
    pub(crate) fn cell(self, tried: &'static str) -> Cell {
        let (shown, raw) = match self {
            How::Live => ("live when the trace ends", "live"),
            How::Tried => (tried, "failed_to_end"),
            How::WithContext => ("with its context", "with_context"),
        };
        Cell::Word { shown, raw }
    }
}

/// Memory that the program did not free itself.
#[derive(Default)]
pub(crate) struct Left {
    /// Went with its context.
    ended: Vec<Allocation>,
    /// What calls have got that others failed to free.
    tried: HashSet<u64>,
    /// What calls have got that were not asked for.
    others: HashSet<u64>,
}

impl Left {
    pub(crate) fn follow(&mut self, step: &Step) {
        for (one, end) in &step.followed.gone {
            let is_other = self.others.contains(&one.call);
            self.ended.extend((*end == End::WithContext && !is_other).then_some(*one));
        }
        let made = step.followed.made.iter().filter(|_| !step.selected);
        self.others.extend(made.map(|made| made.call));
        let failed = step.function.filter(|_| step.call.result.is_some() && !step.call.succeeded());
        if let Some((function, Effect::Free(kind))) = failed.map(|function| (function, function.effect)) {
            let one = freed(step.call, function).and_then(|value| step.memory().called(kind, value));
            self.tried.extend(one.map(|one| one.call));
        }
    }

    fn all<'x>(&'x self, memory: &'x Memory) -> impl Iterator<Item = (&'x Allocation, How)> {
        let live = memory.live().map(|one| (one, How::Live));
        let all = self.ended.iter().map(|one| (one, How::WithContext)).chain(live);
        let all = all.filter(|(one, _)| !self.others.contains(&one.call));
        all.map(|(one, end)| (one, if self.is_tried(one) { How::Tried } else { end }))
    }

    fn is_tried(&self, one: &Allocation) -> bool {
        self.tried.contains(&one.call)
    }

    pub(crate) fn table(&self, head: Head, ending: &Ending) -> Table {
        let mut table = Table::new(head);
        for ((same, end), group) in grouped(ending.trace, self.all(&ending.memory)) {
            let mut cells = vec![
                same.0.to_string().into(),
                Cell::Bytes(group.bytes),
                Cell::Count(group.count()),
                Cell::Bytes(same.3),
                same.1.into(),
                Cell::Number(group.first()),
                end.cell("the freeing call failed"),
                same.2.into(),
                listed(&group.calls).into(),
            ];
            cells.truncate(head.columns.len());
            table.row(cells);
        }
        if ending.trace.footer.is_none() {
            table.note("the trace was not closed: the program may have been killed, or still be running");
        }
        table
    }

    pub(crate) fn finding(&self, ending: &Ending) -> Option<Finding> {
        let (mut count, mut bytes, mut first, mut most) = (0, 0u64, u64::MAX, Group::default());
        let groups = grouped(ending.trace, self.all(&ending.memory).filter(|(one, _)| !self.is_tried(one)));
        let firsts = groups.iter().map(|(_, group)| group.first()).take(KEPT).collect();
        for ((_, _), group) in groups {
            count += group.count();
            bytes = bytes.saturating_add(group.bytes);
            first = first.min(group.first());
            if group.bytes > most.bytes {
                most = group;
            }
        }
        (count > 0).then(|| Finding {
            kind: "not_freed".into(),
            what: format!("{} ({}) leaked", counted(count, "allocation"), size(bytes)),
            evidence: match most.count() == count {
                true => format!("the first by call {first}"),
                false => format!(
                    "the first by call {first}; the largest group: {} ({}), the first by call {}",
                    counted(most.count(), "allocation"),
                    size(most.bytes),
                    most.first()
                ),
            },
            next: "cutrace report -r leaks".into(),
            cost: Cost::Memory(bytes),
            times: count,
            calls: firsts,
        })
    }
}
