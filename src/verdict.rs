//! Whether a trace can be replayed, as the planner sees it.

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
    let words = |reasons: &[replayer::Reason]| reasons.iter().map(ToString::to_string).collect();
    Said { verdict: plan.verdict.to_string(), reasons: words(&plan.reasons), notes: words(&plan.notes) }
}

/// The verdict and its reasons, as a footer keeps them.
pub fn in_words(trace: &Trace) -> (String, Vec<String>) {
    let said = of(trace);
    (said.verdict, said.reasons)
}
