//! Calls that cannot be read, as a finding.

use super::walk::{Ending, Needs, Report, Step};
use crate::findings::finding::{Cost, Finding, LOST};
use crate::findings::holes::{GapObservations, holes};
use crate::tables::table::Table;
use crate::text::figures::counted;
use trace::base::by_thread::ByThread;

#[derive(Default)]
pub(crate) struct Lost {
    threads: ByThread<GapObservations>,
    /// Nanoseconds.
    end: u64,
}

impl<'t> Report<'t> for Lost {
    fn needs(&self) -> Needs {
        Needs::Nothing
    }

    fn visit(&mut self, step: &Step<'_, 't>) {
        let (call, begin) = (step.call, step.begin.max(0) as u64);
        let end = step.last_end().map_or(begin, |end| end.max(0) as u64);
        let between = self.threads.get_or_insert_with(call.thread, GapObservations::default);
        if call.sequence != between.expected {
            between.jump(call.thread, call.sequence, begin, call.number as u32);
        }
        between.expected = call.sequence.wrapping_add(1);
        between.latest = between.latest.max(end);
        self.end = self.end.max(end);
    }

    fn tables(&mut self, _: &Ending<'t>) -> Vec<Table> {
        Vec::new()
    }

    fn findings(&self, ending: &Ending<'t>) -> Vec<Finding> {
        let threads = self.threads.iter().map(|(thread, between)| (thread, between.clone())).collect();
        let holes = holes(ending.trace, threads, self.end);
        let Some(first) = holes.first() else { return Vec::new() };
        vec![Finding {
            kind: LOST.into(),
            what: "calls are missing: the trace is damaged".into(),
            evidence: format!(
                "{}; the first: {}, {}",
                counted(holes.len() as u64, "place"),
                first.title(),
                first.about()
            ),
            next: "cutrace info".into(),
            cost: Cost::Wrong,
            times: holes.len() as u64,
            calls: holes
                .iter()
                .filter_map(|hole| hole.behind.map(u64::from))
                .take(crate::tables::tally::KEPT)
                .collect(),
        }]
    }
}
