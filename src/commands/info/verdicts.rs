//! The verdicts on the processes of a job: replayed together, each has the exports that it lacks alone.

use crate::verdict;
use analysis::calls::losses::{damage_that_loses, has_lost};
use analysis::job::Job;
use analysis::text::shell::shell;
use replayer::{MissingPeers, Ranks, SharedHandles, judge_with_peers, matched};
use trace::Trace;

/// The verdict on one process.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Judged {
    pub verdict: String,
    pub reasons: Vec<String>,
    /// What it is without the others, if it is another verdict beside them.
    pub alone: Option<String>,
}

/// What a trace of more calls is that nobody has judged, and all the others of a job may be.
pub(crate) const NOT_JUDGED: &str = "not judged";

impl Judged {
    pub(crate) fn alone(trace: &Trace) -> Judged {
        Judged::of_at_most(trace, verdict::JUDGED)
    }

    /// What `record` has found. `most`: calls of a trace that is judged here.
    fn of_at_most(trace: &Trace, most: usize) -> Judged {
        let said = |verdict: String, reasons: Vec<String>| Judged { verdict, reasons, alone: None };
        if let Some(footer) = trace.footer.as_ref().filter(|of| trace.damage.is_empty() && !of.verdict.is_empty()) {
            return said(footer.verdict.clone(), footer.reasons.clone());
        }
        if trace.len() <= most {
            let (verdict, reasons) = verdict::in_words(trace);
            return said(verdict, reasons);
        }
        let command = shell(&["cutrace".into(), "info".into(), trace.path.display().to_string()]);
        said(NOT_JUDGED.into(), vec![format!("long trace; run {command}")])
    }
}

/// Judges those anew that share something. `alone`: for each process of the job what it is by itself, if it
/// has a trace.
pub(crate) fn judge_together<'j>(job: &Job, alone: impl Iterator<Item = Option<&'j mut Judged>>) {
    let mut all: Vec<Option<&mut Judged>> = alone.collect();
    if all.iter().flatten().count() < 2 || !all.iter().flatten().any(|judged| judged.verdict == "partly") {
        return;
    }
    let mut is_incomplete = job.is_incomplete() || job.is_chosen;
    let mut parts = Vec::new();
    for (at, process) in job.processes.iter().enumerate().filter(|(at, _)| all[*at].is_some()) {
        let trace = process.trace.as_ref().and_then(|path| Trace::open(path).ok());
        is_incomplete |= trace.as_ref().is_none_or(has_lost);
        // As in a replay, which goes without what is damaged.
        let trace = trace.filter(|trace| damage_that_loses(trace).is_none());
        parts.extend(trace.map(|trace| (at, trace.communicators.clone(), SharedHandles::from_trace(&trace))));
    }
    let ranks = Ranks::from_communicators(parts.iter().map(|(_, communicators, _)| communicators));
    let (places, crossings): (Vec<usize>, Vec<SharedHandles>) = parts.into_iter().map(|(at, _, of)| (at, of)).unzip();
    let imports = matched(&crossings);
    for ((at, crossings), imports) in places.into_iter().zip(&crossings).zip(&imports) {
        let trace = job.processes[at].trace.as_ref().and_then(|path| Trace::open(path).ok());
        // Ranks that wait for each other need not share anything that calls tell of.
        let is_tied = |trace: &Trace| !crossings.is_empty() || !trace.communicators.is_empty();
        let trace = trace.filter(|trace| is_tied(trace) && trace.len() <= verdict::JUDGED);
        let (Some(trace), Some(judged)) = (trace, &mut all[at]) else { continue };
        let lacks = MissingPeers { processes: is_incomplete, ranks: ranks.lack_some_of(&trace.communicators) };
        let of = judge_with_peers(&trace, imports, lacks);
        let alone = std::mem::replace(&mut judged.verdict, of.verdict.name().into());
        judged.reasons = of.reasons.iter().map(ToString::to_string).collect();
        judged.alone = Some(alone).filter(|alone| *alone != judged.verdict);
    }
}

/// The verdict on all.
pub(crate) fn worst<'j>(all: impl Iterator<Item = &'j Judged> + Clone) -> &'static str {
    const ORDER: [&str; 4] = ["no", "partly", NOT_JUDGED, "replayable"];
    ORDER.into_iter().find(|verdict| all.clone().any(|judged| judged.verdict == *verdict)).unwrap_or("no")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_long_trace_that_nobody_has_judged_is_not_judged_here() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/failing_calls.bin");
        let mut trace = Trace::open(&path).expect("a trace");
        let said = Judged::of_at_most(&trace, 0);
        trace.footer = None;
        assert_eq!(Judged::of_at_most(&trace, trace.len()).verdict, said.verdict);
        let judged = Judged::of_at_most(&trace, trace.len() - 1);
        let command = format!("long trace; run cutrace info {}", shell(&[path.display().to_string()]));
        assert_eq!((judged.verdict.as_str(), &judged.reasons), (NOT_JUDGED, &vec![command]));
        let replayable = Judged { verdict: "replayable".into(), ..Judged::default() };
        assert_eq!(worst([replayable, judged].iter()), NOT_JUDGED);
    }
}
