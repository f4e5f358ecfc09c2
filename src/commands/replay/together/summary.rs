//! The result of a job's replay: a line for each process, and the whole.

use super::process::{NOT_REPLAYABLE, Process, ProcessOutcome};
use crate::commands::replay::as_json::ReplaySummary::{self, Planned, Replayed};
use crate::commands::replay::as_json::{self, SCHEMA};
use crate::commands::replay::text::except_for;
use crate::terminal::exit::{DIVERGED, DONE, UNREADABLE, UNVERIFIED};
use crate::terminal::standard_output::{Results, print_json};
use analysis::text::figures::{counted, grouped};
use analysis::text::shell::shell;
use anyhow::Result;
use replayer::{Divergence, Outcome};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;
use trace::show::text::plain;

pub(super) struct Whole<'a> {
    pub processes: &'a [Process],
    pub outcomes: &'a [ProcessOutcome],
    /// Traces of the job that are missing or cannot be read, in words.
    pub missing: Vec<String>,
    /// Which process failed first, and why.
    pub why: Option<String>,
    /// Calls that opened what other processes share.
    pub opened: u64,
    pub elapsed: Duration,
}

const LACKS: &str = "; a trace of the job is missing or cannot be read";

impl Whole<'_> {
    /// The highest of those that failed, else the worst.
    pub(super) fn status(&self) -> u8 {
        let of = |wanted: &dyn Fn(&ProcessOutcome) -> bool| self.outcomes.iter().any(wanted);
        let failed = self.outcomes.iter().filter(|outcome| outcome.failed.is_some());
        if let Some(status) = failed.map(|outcome| outcome.status).filter(|status| *status != DONE).max() {
            return status;
        }
        let has_verified = of(&|outcome| outcome.status == DONE);
        let is_unverified =
            |outcome: &ProcessOutcome| outcome.status == UNVERIFIED && !(has_verified && has_nothing(outcome));
        match of(&|outcome| outcome.status == DIVERGED) {
            true => DIVERGED,
            false if !self.missing.is_empty() => UNREADABLE,
            false if of(&is_unverified) => UNVERIFIED,
            false => DONE,
        }
    }

    /// Of one alone. Where others had something to compare, one that had nothing is no failure.
    pub(super) fn status_of(&self, outcome: &ProcessOutcome) -> u8 {
        let has_verified = self.outcomes.iter().any(|outcome| outcome.status == DONE);
        if has_verified && word(outcome) == NOTHING { DONE } else { outcome.status }
    }

    fn word(&self) -> &'static str {
        match self.status() {
            DONE if self.all(|summary| matches!(summary, Replayed(of) if of.outcome == Outcome::Replayed)) => {
                "replayed"
            }
            DONE if self.all(|summary| matches!(summary, Planned(_))) => "planned",
            DONE => "verified",
            DIVERGED => "diverged",
            UNVERIFIED => "unverified",
            UNREADABLE if self.outcomes.iter().all(|outcome| outcome.failed.is_none()) => "incomplete",
            _ => "failed",
        }
    }

    fn all(&self, is: impl Fn(&ReplaySummary) -> bool) -> bool {
        self.outcomes.iter().all(|outcome| outcome.summary.as_ref().is_some_and(&is))
    }

    /// How many there are, and of each word how many, if there is more than one.
    fn counts(&self) -> String {
        let of = |wanted: &str| self.outcomes.iter().filter(|outcome| word(outcome) == wanted).count();
        let mut words: Vec<&str> = self.outcomes.iter().map(word).collect();
        words.sort_by_key(|word| (ORDER.iter().position(|known| known == word), *word));
        words.dedup();
        let each: Vec<String> = words.iter().map(|word| format!("{} {word}", of(word))).collect();
        let each = if each.len() > 1 { format!(" ({})", each.join(", ")) } else { String::new() };
        format!("{}{each}", counted(self.outcomes.len() as u64, "process"))
    }

    /// Whose recording ended inside calls: what they would have brought nobody knows.
    fn ended_inside(&self) -> String {
        let all = self.processes.iter().zip(self.outcomes);
        let ended = all.filter(|(_, outcome)| inside(outcome).is_some());
        let names: Vec<String> = ended.map(|(process, _)| process.name()).collect();
        match &names[..] {
            [] => String::new(),
            names => format!("; inside calls when the recording ended: {}", names.join(", ")),
        }
    }

    pub(super) fn tell(&self, as_json: bool) -> Result<()> {
        if as_json {
            return print_json(&self.object());
        }
        let mut out = Results::begin();
        let alike = self.failed_alike();
        for (process, outcome) in self.processes.iter().zip(self.outcomes) {
            if let Some(why) = own_failure(outcome).filter(|why| alike.get(why).is_some_and(|all| all.len() > 1)) {
                let all = &alike[why];
                if std::ptr::eq(all[0], process) {
                    let names: Vec<String> = all.iter().map(|process| process.name()).collect();
                    writeln!(out, "{}", plain(&format!("{}: {why}", names.join(", "))))?;
                }
                continue;
            }
            let program = process.about.program.rsplit('/').next().unwrap_or_default();
            writeln!(out, "{}", plain(&format!("{} {program}: {}", process.name(), line(outcome))))?;
            if outcome.status != DONE && outcome.failed.is_none() {
                outcome.said.iter().try_for_each(|said| writeln!(out, "  {}", plain(said)))?;
            }
            if outcome.status != DONE && word(outcome) != NOTHING {
                writeln!(out, "  {}", plain(&further(process, outcome)))?;
            }
        }
        let (processes, opened) = (self.counts(), counted(self.opened, "handle"));
        let shared = if self.opened == 0 { String::new() } else { format!(", {opened} shared between processes") };
        let is_said = |why: &String| alike.iter().any(|(of, all)| all.len() > 1 && why.ends_with(of));
        let why = self.why.as_ref().filter(|why| !is_said(why));
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let ended = self.ended_inside();
        let missing = match &self.missing[..] {
            [] => String::new(),
            [first] => format!("{LACKS}: {first}"),
            [first, more @ ..] => format!("{LACKS}: {first}, and {} more (above)", grouped(more.len() as u64)),
        };
        let elapsed = self.elapsed.as_secs_f64();
        writeln!(
            out,
            "{}",
            plain(&format!("{}: {processes} in {elapsed:.2} s{shared}{why}{ended}{missing}", self.word()))
        )?;
        Ok(out.flush()?)
    }

    /// By why they failed, those that did by themselves.
    fn failed_alike(&self) -> HashMap<&str, Vec<&Process>> {
        let mut alike: HashMap<&str, Vec<&Process>> = HashMap::new();
        for (process, outcome) in self.processes.iter().zip(self.outcomes) {
            own_failure(outcome).into_iter().for_each(|why| alike.entry(why).or_default().push(process));
        }
        alike
    }

    fn object(&self) -> Value {
        let one = |(process, outcome): (&Process, &ProcessOutcome)| {
            json!({
                "trace": process.path.display().to_string(),
                "recording": process.about.recording,
                "host": process.about.host,
                "pid": process.about.pid,
                "rank": process.about.rank,
                "program": process.about.program,
                "status": outcome.status,
                "failed": outcome.failed,
                "messages": outcome.said,
                "replay": outcome.summary,
            })
        };
        json!({
            "schema": SCHEMA,
            "outcome": self.word(),
            "status": self.status(),
            "failed": self.why,
            "incomplete": !self.missing.is_empty(),
            "missing": self.missing,
            "handles_opened": self.opened,
            "elapsed_ns": self.elapsed.as_nanos() as u64,
            "processes": self.processes.iter().zip(self.outcomes).map(one).collect::<Vec<_>>(),
        })
    }
}

/// Why it failed, if it was not ended for another's sake. What a trace lacks is its own affair.
fn own_failure(outcome: &ProcessOutcome) -> Option<&str> {
    outcome.failed.as_deref().filter(|why| !outcome.was_ended && !why.starts_with(NOT_REPLAYABLE))
}

/// What its replay found, if anything was replayed.
fn replayed(outcome: &ProcessOutcome) -> Option<&as_json::Replayed> {
    match outcome.summary.as_ref()? {
        Replayed(of) => Some(of),
        Planned(_) => None,
    }
}

/// Whether there was nothing to compare: it had no memory on a device, as a launcher that only asks for
/// devices.
fn has_nothing(outcome: &ProcessOutcome) -> bool {
    replayed(outcome).is_some_and(|of| {
        of.launches == 0
            && !of.copied_results
            && of.refused == 0
            && of.placement.placed == 0
            && of.placement.translated == 0
    })
}

/// What came of one, in the order in which that matters.
const ORDER: [&str; 8] = ["failed", "ended", "diverged", "unverified", NOTHING, "verified", "replayed", "no"];
const NOTHING: &str = "nothing to compare";

/// What came of it in a word.
fn word(outcome: &ProcessOutcome) -> &str {
    match outcome.summary.as_ref().filter(|_| outcome.failed.is_none()) {
        None if outcome.was_ended => "ended",
        None => "failed",
        Some(Replayed(of)) if of.outcome == Outcome::Unverified && has_nothing(outcome) => NOTHING,
        Some(Replayed(of)) => of.outcome.name(),
        Some(Planned(of)) => of.verdict.name(),
    }
}

/// How to go on with one that did not verify: its trace, and what tells more of it. Alone it lacks what it
/// shared.
fn further(process: &Process, outcome: &ProcessOutcome) -> String {
    /// Calls that are shown before the one that differs.
    const BEFORE: u64 = 5;
    let trace = process.path.display().to_string();
    let command = |words: &[&str]| {
        let words: Vec<String> = ["cutrace"].iter().chain(words).map(|word| (*word).to_owned()).collect();
        shell(&words)
    };
    let first = replayed(outcome).and_then(|of| Some(of.first_divergence.as_ref()?.call));
    let shown = || format!("its trace: {}", shell(std::slice::from_ref(&trace)));
    match (first, &outcome.failed) {
        _ if outcome.was_ended => shown(),
        (_, Some(why)) if why.starts_with(NOT_REPLAYABLE) => format!("why: {}", command(&["info", &trace])),
        (Some(call), _) if outcome.shares => {
            let calls = format!("{}..{}", call.saturating_sub(BEFORE), call.saturating_add(1));
            format!("calls before it: {}", command(&["dump", &trace, "--calls", &calls]))
        }
        _ if outcome.shares => shown(),
        _ => format!("details: {}", command(&["replay", &trace])),
    }
}

/// The calls that had not returned when its recording ended: `call 8 cuCtxSynchronize`.
fn inside(outcome: &ProcessOutcome) -> Option<String> {
    // A plan only counts them.
    let (unfinished, calls) = match outcome.summary.as_ref()? {
        Replayed(of) => (of.unfinished, &of.inside[..]),
        Planned(of) => (of.unfinished, &[][..]),
    };
    if unfinished == 0 {
        return None;
    }
    let named = calls.iter().filter_map(|of| Some(format!("call {} {}", of.call, of.function.as_ref()?)));
    let named: Vec<String> = named.take(NAMED).collect();
    let more = match unfinished.saturating_sub(named.len() as u64) {
        0 => String::new(),
        more => format!(" and {} more", grouped(more)),
    };
    Some(format!("{}{more}", named.join(", ")))
}

/// Calls that are named of one process.
const NAMED: usize = 4;

fn line(outcome: &ProcessOutcome) -> String {
    let of = match outcome.summary.as_ref().filter(|_| outcome.failed.is_none()) {
        None => return outcome.failed.clone().unwrap_or_else(|| "no message".into()),
        Some(Planned(planned)) => {
            let reasons = planned.reasons.len() as u64;
            let reasons = if reasons == 0 { String::new() } else { format!(", {}", counted(reasons, "reason")) };
            return format!("{}{reasons}", planned.verdict);
        }
        Some(Replayed(of)) => of,
    };
    let calls = counted(of.executed + of.emulated, "call");
    let elapsed = of.elapsed_ns as f64 / 1e9;
    let first = of.left_out.iter().filter(|left| left.refused).min_by_key(|left| left.first);
    let why = first.map_or_else(String::new, |left| format!(" ({}: {})", left.function, left.reason));
    // Where nothing could be compared the word says so.
    let behind = if of.outcome == Outcome::Verified { of.not_compared.dependents_in_all } else { 0 };
    let refused = except_for(of.refused, &why, behind);
    let differs = of.first_divergence.as_ref().map_or_else(String::new, |first| {
        let Divergence { call, function, what, expected, found, .. } = first;
        format!("; first at call {call} {function}, {what}: expected {expected}, found {found}")
    });
    let word = word(outcome);
    let inside = inside(outcome);
    let unfinished =
        inside.map(|inside| format!("; unfinished when the recording ended: {inside}")).unwrap_or_default();
    let compared = match (word, of.copied_results) {
        ("unverified", false) => ", no result was copied to the host",
        ("unverified", true) => ", the copies to the host could not be compared",
        _ => "",
    };
    let fault = of.recorded_fault.as_ref();
    let fault = fault.map_or_else(String::new, |fault| format!("; recorded {} at call {}", fault.result, fault.call));
    format!("{word}{compared}{refused}: {calls} in {elapsed:.2} s{fault}{differs}{unfinished}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::replay::as_json::RecordedFault;

    fn default() -> as_json::Replayed {
        as_json::Replayed::default()
    }

    fn ended(status: u8, of: as_json::Replayed) -> ProcessOutcome {
        let (summary, said) = (Some(Replayed(Box::new(of))), Vec::new());
        ProcessOutcome { status, summary, failed: None, was_ended: false, shares: false, said }
    }

    #[test]
    fn why_nothing_was_verified_and_what_had_failed_is_in_the_line() {
        let of = |copied_results: bool| {
            let fault = RecordedFault { call: 21, result: "CUDA_ERROR_ILLEGAL_ADDRESS".into() };
            let recorded_fault = Some(fault);
            line(&ended(
                UNVERIFIED,
                as_json::Replayed { copied_results, launches: 2, executed: 22, recorded_fault, ..default() },
            ))
        };
        let more = "22 calls in 0.00 s; recorded CUDA_ERROR_ILLEGAL_ADDRESS at call 21";
        assert_eq!(of(false), format!("unverified, no result was copied to the host: {more}"));
        assert_eq!(of(true), format!("unverified, the copies to the host could not be compared: {more}"));
    }

    #[test]
    fn a_plan_counts_the_calls_that_had_not_returned() {
        let mut outcome = ended(DONE, default());
        assert_eq!(inside(&outcome), None);
        outcome.summary = Some(Planned(as_json::Planned { unfinished: 2, ..Default::default() }));
        assert_eq!(inside(&outcome).as_deref(), Some(" and 2 more"));
    }

    #[test]
    fn of_what_was_shared_the_trace_tells_more_than_a_replay_alone() {
        let process = Process { path: "run/a.bin".into(), about: Default::default() };
        let first_divergence = serde_json::from_value(json!({
            "call": 7, "function": "cuMemcpyDtoH_v2", "thread": 0, "what": "dstHost", "offset": null,
            "expected": "1", "found": "2", "extent": null, "launches": [],
        }));
        let first_divergence = Some(first_divergence.expect("a difference"));
        let mut outcome =
            ended(DIVERGED, as_json::Replayed { outcome: Outcome::Diverged, first_divergence, ..default() });
        assert_eq!(further(&process, &outcome), "details: cutrace replay run/a.bin");
        outcome.shares = true;
        assert_eq!(further(&process, &outcome), "calls before it: cutrace dump run/a.bin --calls 2..8");
        outcome.was_ended = true;
        assert_eq!(further(&process, &outcome), "its trace: run/a.bin");
    }
}
