//! Memory that is freed and got again, piece by piece, in the same size.

use super::place::Same;
use crate::figures::{counted, duration};
use crate::report::tally::Tally;
use crate::report::walk::Step;
use foldhash::HashMap;
use viewer::data::findings::{Cost, Finding};

#[derive(Default)]
pub struct Churn<'t> {
    /// Frees of such pieces that no allocation has followed yet: how many, and how long they took.
    freed: HashMap<Same<'t>, (u64, i64)>,
    again: Tally,
}

/// Sizes that are told apart.
const SIZES: usize = 10_000;
/// Fewer are no habit.
const LEAST: u64 = 10;

impl<'t> Churn<'t> {
    pub fn freed(&mut self, same: Same<'t>, step: &Step) {
        // A pool keeps what is freed.
        if same.1 == "pool" || self.freed.len() >= SIZES && !self.freed.contains_key(&same) {
            return;
        }
        let (count, time) = self.freed.entry(same).or_default();
        *count += 1;
        *time += step.duration().unwrap_or(0);
    }

    pub fn got(&mut self, same: Same<'t>, step: &Step) {
        let Some((count, time)) = self.freed.get_mut(&same).filter(|(count, _)| *count > 0) else { return };
        let free = *time / *count as i64;
        *count -= 1;
        *time -= free;
        if step.selected {
            self.again.add(step.call.number, step.duration().unwrap_or(0) + free);
        }
    }

    pub fn finding(&self) -> Option<Finding> {
        let (calls, time) = (self.again.calls, self.again.time);
        (calls >= LEAST).then(|| Finding {
            kind: "allocation_churn".into(),
            what: format!("{} got memory of a size that had been freed before", counted(calls, "allocation")),
            evidence: format!(
                "{} in these and in those frees; the first is call {}; a piece that is kept, or comes from a pool \
                 (cuMemAllocAsync), is not made anew",
                duration(time),
                self.again.first.unwrap_or(0)
            ),
            next: "cutrace report -r memory".into(),
            cost: Cost::Time(time),
            times: calls,
            calls: self.again.costliest(),
        })
    }
}
