//! What the CPU wrote while a callback ran: whether that was the callback or somebody else nobody knows. It is told for both, and
//! replayed so; where the two wrote the same bytes in turn, the replay may have them in another order.

use crate::plan::verdict::{Reason, Reasons};
use trace::Trace;

const WHAT: &str = "memory written while a callback ran, by it or by others: the replay writes it for both";

pub fn meanwhile(trace: &Trace) -> Vec<Reason> {
    let mut reasons = Reasons::default();
    let callers = trace.callers_back();
    let first = callers.iter().flat_map(|call| call.callback_runs()).filter_map(|run| run.first().copied());
    let mut runs: Vec<(u64, u64)> = first.map(|written| (written.about.begin, written.about.end)).collect();
    if runs.is_empty() {
        return Vec::new();
    }
    runs.sort_unstable();
    // The latest end of all runs that began as early, so that one look tells whether any was under way.
    let mut latest = 0;
    runs.iter_mut().for_each(|(_, end)| {
        latest = latest.max(*end);
        *end = latest;
    });
    let is_under_way = |time: u64| {
        let began = runs.partition_point(|(begin, _)| *begin < time);
        began > 0 && runs[began - 1].1 > time
    };
    for call in trace.calls() {
        let mut found = call.written().filter(|written| !written.is_seen() && written.images().next().is_some());
        if found.any(|written| is_under_way(written.about.begin)) {
            reasons.about_call(WHAT, call.number);
        }
    }
    reasons.into_list()
}
