//! The verdict on a trace: whether it can be replayed, and the reasons against it.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The judgement on a trace before any replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No reason is known for which results could differ.
    Replayable,
    /// Some of it is left out, or was not recorded.
    Partly,
    /// The trace cannot be replayed.
    #[default]
    No,
}

impl Verdict {
    /// The word for the verdict in reports and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Replayable => "replayable",
            Verdict::Partly => "partly",
            Verdict::No => "no",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A reason why a trace is not replayable as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The reason as a phrase.
    pub what: String,
    /// How often.
    pub count: u64,
    /// The first calls it is about; empty if it is about the trace.
    pub calls: Vec<u64>,
}

/// Calls named in a reason; the rest are counted.
const NAMED: usize = 5;

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.what)?;
        if self.calls.is_empty() {
            return if self.count > 1 { write!(f, " ({})", self.count) } else { Ok(()) };
        }
        let named: Vec<String> = self.calls.iter().map(u64::to_string).collect();
        let more = if self.count as usize > self.calls.len() { ", ..." } else { "" };
        let calls = if self.count == 1 { "call" } else { "calls" };
        write!(f, " ({} {calls}: {}{more})", self.count, named.join(", "))
    }
}

/// A plan's judgement of a trace.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The reasons for a verdict other than `Replayable`.
    pub reasons: Vec<Reason>,
    /// What does not stand in the way, and is good to know.
    pub notes: Vec<Reason>,
}

/// Collects reasons in the order of their first appearance.
#[derive(Default)]
pub(crate) struct Reasons {
    all: Vec<Reason>,
    by_text: HashMap<String, usize>,
}

impl Reasons {
    pub(crate) fn about_call(&mut self, what: impl Into<String>, call: u64) {
        let reason = self.entry(what.into());
        reason.count += 1;
        if reason.calls.len() < NAMED {
            reason.calls.push(call);
        }
    }

    pub(crate) fn about_trace(&mut self, what: impl Into<String>, count: u64) {
        self.entry(what.into()).count += count;
    }

    pub(crate) fn into_list(self) -> Vec<Reason> {
        self.all
    }

    fn entry(&mut self, what: String) -> &mut Reason {
        let at = *self.by_text.entry(what.clone()).or_insert_with(|| {
            self.all.push(Reason { what, count: 0, calls: Vec::new() });
            self.all.len() - 1
        });
        &mut self.all[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_names_calls_and_counts() {
        let mut reasons = Reasons::default();
        for call in 10..17 {
            reasons.about_call("cuFoo: no", call);
        }
        reasons.about_call("cuBar: no", 3);
        reasons.about_trace("lost", 2);
        let text: Vec<String> = reasons.into_list().iter().map(Reason::to_string).collect();
        assert_eq!(text, ["cuFoo: no (7 calls: 10, 11, 12, 13, 14, ...)", "cuBar: no (1 call: 3)", "lost (2)"]);
    }
}
