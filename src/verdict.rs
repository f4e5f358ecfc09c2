//! Whether a trace can be replayed, as the plan sees it.

mod clocks;

use bincode::{Decode, Encode};
use replayer::{Judgement, Plan, Reason};
use trace::Trace;

/// Calls of the longest trace that is judged where nobody asks about it by itself, which takes seconds.
pub(crate) const JUDGED: usize = 5_000_000;

/// A verdict in words.
#[derive(Clone, Encode, Decode)]
pub(crate) struct Said {
    /// `replayable`, `partly` or `no`.
    pub verdict: String,
    /// Why not.
    pub reasons: Vec<String>,
    /// What does not stand in the way, and is good to know.
    pub notes: Vec<String>,
}

pub(crate) fn of(trace: &Trace) -> Said {
    let Judgement { verdict, reasons, notes } = replayer::judge(trace);
    Said { verdict: verdict.to_string(), reasons: words(&reasons), notes: all_notes(trace, &notes) }
}

/// What is good to know before a replay.
pub(crate) fn notes(trace: &Trace, plan: &Plan) -> Vec<String> {
    all_notes(trace, &plan.judgement.notes)
}

fn all_notes(trace: &Trace, of_plan: &[Reason]) -> Vec<String> {
    let mut notes = words(of_plan);
    notes.extend(clocks::notes(trace));
    notes
}

/// The verdict and its reasons, as a footer keeps them.
pub(crate) fn in_words(trace: &Trace) -> (String, Vec<String>) {
    let Judgement { verdict, reasons, .. } = replayer::judge(trace);
    (verdict.to_string(), words(&reasons))
}

/// A verdict as people read it; JSON and traces have `partly` and `no`.
pub(crate) fn describe(verdict: &str) -> &str {
    match verdict {
        "partly" => "partly replayable",
        "no" => "not replayable",
        other => other,
    }
}

fn words(reasons: &[Reason]) -> Vec<String> {
    reasons.iter().map(ToString::to_string).collect()
}
