//! Memory that is freed and allocated again, piece by piece, in the same size.

use super::place::Same;
use crate::findings::finding::{Cost, Finding};
use crate::report::walk::Step;
use crate::tables::tally::Tally;
use crate::text::figures::{counted, duration};
use foldhash::HashMap;
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Churn<'t> {
    /// Frees of such pieces that no allocation has followed yet: how many, and how long they took.
    freed: HashMap<Same<'t>, (u64, i64)>,
    again: Tally,
    /// How many of these got memory of which kind.
    kinds: BTreeMap<&'static str, u64>,
}

/// Sizes that are told apart.
const SIZES: usize = 10_000;
/// Fewer are no habit.
const LEAST: u64 = 10;

impl<'t> Churn<'t> {
    pub(super) fn freed(&mut self, same: Same<'t>, step: &Step) {
        // A pool keeps what is freed.
        if matches!(same.1, "pool" | "graph") || self.freed.len() >= SIZES && !self.freed.contains_key(&same) {
            return;
        }
        let (count, time) = self.freed.entry(same).or_default();
        *count += 1;
        *time += step.duration().unwrap_or(0);
    }

    pub(super) fn got(&mut self, same: Same<'t>, step: &Step) {
        let Some((count, time)) = self.freed.get_mut(&same).filter(|(count, _)| *count > 0) else { return };
        let free = *time / *count as i64;
        *count -= 1;
        *time -= free;
        if step.selected {
            self.again.add(step.call.number, step.duration().unwrap_or(0) + free);
            *self.kinds.entry(same.1).or_default() += 1;
        }
    }

    pub(super) fn finding(&self) -> Option<Finding> {
        let (calls, time) = (self.again.calls, self.again.time);
        let mut kinds: Vec<(&str, u64)> = self.kinds.iter().map(|(kind, count)| (*kind, *count)).collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let (of, memory) = match kinds[..] {
            [(kind, count)] => (String::new(), buffers(kind, count)),
            _ => {
                let each: Vec<String> = kinds.iter().map(|(kind, count)| buffers(kind, *count)).collect();
                (format!(" ({})", each.join(", ")), counted(calls, "buffer"))
            }
        };
        let mut to_do: Vec<&str> = Vec::new();
        for advice in kinds.iter().map(|(kind, _)| advice(kind)) {
            if !to_do.contains(&advice) {
                to_do.push(advice);
            }
        }
        (calls >= LEAST).then(|| Finding {
            kind: "allocation_churn".into(),
            what: format!("{memory} freed and allocated again at the same size{of}"),
            evidence: format!(
                "{} in these allocations and frees; the first is call {}; {}",
                duration(time),
                self.again.first.unwrap_or(0),
                to_do.join("; ")
            ),
            next: "cutrace report -r memory".into(),
            cost: Cost::Time(time),
            times: calls,
            calls: self.again.costliest(),
        })
    }
}

/// `3 pinned buffers`.
fn buffers(kind: &str, count: u64) -> String {
    let kind = match kind {
        "virtual" => "physical",
        "pinned" | "registered" | "managed" | "array" => kind,
        _ => "device",
    };
    counted(count, &format!("{kind} buffer"))
}

/// How a program allocates such memory once. Pools that are used in stream order cost the host no time.
fn advice(kind: &str) -> &'static str {
    match kind {
        "pinned" => "reuse a pinned buffer, or take parts of a large one",
        "registered" => "leave the memory registered",
        "device" => "reuse the buffer, or allocate from a pool (cuMemAllocAsync)",
        _ => "reuse the buffer",
    }
}
