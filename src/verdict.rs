//! Whether a trace can be replayed, as the planner sees it.

use crate::clocks;
use replayer::{Plan, Reason};
use trace::Trace;

/// In words.
pub struct Said {
    /// `replayable`, `partly` or `no`.
    pub verdict: String,
    /// Why not.
    pub reasons: Vec<String>,
    /// What does not stand in the way, and is good to know.
    pub notes: Vec<String>,
}

pub fn of(trace: &Trace) -> Said {
    let plan = replayer::plan(trace);
    Said { verdict: plan.verdict.to_string(), reasons: words(&plan.reasons), notes: notes(trace, &plan) }
}

/// What is good to know before a replay.
pub fn notes(trace: &Trace, plan: &Plan) -> Vec<String> {
    let mut notes = words(&plan.notes);
    notes.extend(clocks::notes(trace));
    notes
}

/// The verdict and its reasons, as a footer keeps them.
pub fn in_words(trace: &Trace) -> (String, Vec<String>) {
    let plan = replayer::plan(trace);
    (plan.verdict.to_string(), words(&plan.reasons))
}

fn words(reasons: &[Reason]) -> Vec<String> {
    reasons.iter().map(ToString::to_string).collect()
}
