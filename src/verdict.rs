//! Whether a trace can be replayed, as the planner sees it.

use trace::Trace;

/// `replayable`, `partly` or `no`, and why not.
pub fn of(trace: &Trace) -> (String, Vec<String>) {
    let plan = replayer::plan(trace);
    (plan.verdict.to_string(), plan.reasons.iter().map(ToString::to_string).collect())
}
