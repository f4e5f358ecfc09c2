//! CPU writes while a callback ran. Nobody knows whether the callback or another thread made them, so they
//! are recorded and replayed for both; if the two wrote the same bytes in turn, the replay may swap their
//! order.

use crate::plan::verdict::{Reason, Reasons};
use trace::Trace;

const WHAT: &str = "memory written during a callback, by it or by other threads: the replay writes it at both places";

/// The runs of callbacks: begin, and the latest end of all that began no later, so that one lookup shows
/// whether any was running.
pub(crate) struct Runs(Vec<(u64, u64)>);

impl Runs {
    pub(crate) fn from_trace(trace: &Trace) -> Runs {
        let callers = trace.callers_back();
        let first =
            callers.iter().flat_map(|call| call.callback_runs().into_values()).filter_map(|run| run.first().copied());
        let mut runs: Vec<(u64, u64)> = first.map(|written| (written.about.begin, written.about.end)).collect();
        runs.sort_unstable();
        let mut latest = 0;
        runs.iter_mut().for_each(|(_, end)| {
            latest = latest.max(*end);
            *end = latest;
        });
        Runs(runs)
    }

    pub(crate) fn is_under_way(&self, time: u64) -> bool {
        let began = self.0.partition_point(|(begin, _)| *begin < time);
        began > 0 && self.0[began - 1].1 > time
    }
}

pub(crate) fn notes(trace: &Trace) -> Vec<Reason> {
    let mut reasons = Reasons::default();
    let runs = Runs::from_trace(trace);
    if runs.0.is_empty() {
        return Vec::new();
    }
    for call in trace.calls() {
        let mut found = call.written().filter(|written| !written.is_seen() && written.images().next().is_some());
        if found.any(|written| runs.is_under_way(written.about.begin)) {
            reasons.about_call(WHAT, call.number);
        }
    }
    reasons.into_list()
}
