//! What came of the replay of a job: a line a process, and the whole.

use super::process::{NOT_REPLAYABLE, Outcome, Process};
use crate::exit::{DIVERGED, DONE, UNREADABLE, UNVERIFIED};
use crate::figures::{counted, grouped};
use crate::replay::as_json::SCHEMA;
use crate::replay::text::except_for;
use crate::shell::shell;
use crate::standard_output::Results;
use anyhow::Result;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;
use trace::show::text::plain;

pub struct Whole<'a> {
    pub processes: &'a [Process],
    pub outcomes: &'a [Outcome],
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
    pub fn status(&self) -> u8 {
        let of = |wanted: &dyn Fn(&Outcome) -> bool| self.outcomes.iter().any(wanted);
        let failed = self.outcomes.iter().filter(|outcome| outcome.failed.is_some());
        if let Some(status) = failed.map(|outcome| outcome.status).filter(|status| *status != DONE).max() {
            return status;
        }
        let has_verified = of(&|outcome| outcome.status == DONE);
        let is_unverified = |outcome: &Outcome| outcome.status == UNVERIFIED && !(has_verified && has_nothing(outcome));
        match of(&|outcome| outcome.status == DIVERGED) {
            true => DIVERGED,
            false if !self.missing.is_empty() => UNREADABLE,
            false if of(&is_unverified) => UNVERIFIED,
            false => DONE,
        }
    }

    /// Of one alone. Where others had something to compare, one that had nothing is no failure.
    pub fn status_of(&self, outcome: &Outcome) -> u8 {
        let has_verified = self.outcomes.iter().any(|outcome| outcome.status == DONE);
        if has_verified && word(outcome) == NOTHING { DONE } else { outcome.status }
    }

    fn word(&self) -> &'static str {
        match self.status() {
            DONE if self.outcomes.iter().all(|outcome| said(outcome, "outcome") == Some("replayed")) => "replayed",
            DONE if self.is_planned() => "planned",
            DONE => "verified",
            DIVERGED => "diverged",
            UNVERIFIED => "unverified",
            UNREADABLE if self.outcomes.iter().all(|outcome| outcome.failed.is_none()) => "incomplete",
            _ => "failed",
        }
    }

    /// Nothing was replayed, only asked whether it could be.
    fn is_planned(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.report.as_ref().is_some_and(|report| report["outcome"].is_null()))
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

    pub fn tell(&self, as_json: bool) -> Result<()> {
        let mut out = Results::begin();
        if as_json {
            crate::json::write_pretty(&mut out, &self.object())?;
            writeln!(out)?;
            return Ok(out.flush()?);
        }
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
        let shared =
            if self.opened == 0 { String::new() } else { format!(", {opened} of one process opened by another") };
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
        let one = |(process, outcome): (&Process, &Outcome)| {
            json!({
                "trace": process.path.display().to_string(),
                "recording": process.about.recording,
                "host": process.about.host,
                "pid": process.about.pid,
                "rank": process.about.rank,
                "program": process.about.program,
                "status": outcome.status,
                "failed": outcome.failed,
                "said": outcome.said,
                "replay": outcome.report,
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
fn own_failure(outcome: &Outcome) -> Option<&str> {
    outcome.failed.as_deref().filter(|why| !outcome.was_ended && !why.starts_with(NOT_REPLAYABLE))
}

fn said<'o>(outcome: &'o Outcome, field: &str) -> Option<&'o str> {
    outcome.report.as_ref()?[field].as_str()
}

/// Whether there was nothing to compare: it had no memory on a device, as a launcher that only asks for
/// devices.
fn has_nothing(outcome: &Outcome) -> bool {
    let is_none = |report: &Value| {
        let placement = &report["placement"];
        report["launches"] == 0
            && report["came_back"] == false
            && report["refused"] == 0
            && placement["placed"] == 0
            && placement["translated"] == 0
    };
    outcome.report.as_ref().is_some_and(is_none)
}

/// What came of one, in the order in which that matters.
const ORDER: [&str; 8] = ["failed", "ended", "diverged", "unverified", NOTHING, "verified", "replayed", "no"];
const NOTHING: &str = "nothing to compare";

/// What came of it in a word.
fn word(outcome: &Outcome) -> &str {
    let report = outcome.report.as_ref().filter(|_| outcome.failed.is_none());
    let Some(report) = report else { return if outcome.was_ended { "ended" } else { "failed" } };
    match report["outcome"].as_str() {
        Some("unverified") if has_nothing(outcome) => NOTHING,
        Some(word) => word,
        None => report["verdict"].as_str().unwrap_or("unknown"),
    }
}

/// How to go on with one that did not verify: its trace, and what tells more of it. Alone it lacks what it
/// shared.
fn further(process: &Process, outcome: &Outcome) -> String {
    /// Calls that are shown before the one that differs.
    const BEFORE: u64 = 5;
    let trace = process.path.display().to_string();
    let command = |words: &[&str]| {
        let words: Vec<String> = ["cutrace"].iter().chain(words).map(|word| (*word).to_owned()).collect();
        shell(&words)
    };
    let report = outcome.report.as_ref();
    let first = report.and_then(|report| report["first_divergence"]["call"].as_u64());
    let shown = || format!("its trace: {}", shell(std::slice::from_ref(&trace)));
    match (first, &outcome.failed) {
        _ if outcome.was_ended => shown(),
        (_, Some(why)) if why.starts_with(NOT_REPLAYABLE) => format!("why: {}", command(&["info", &trace])),
        (Some(call), _) if outcome.shares => {
            let calls = format!("{}..{}", call.saturating_sub(BEFORE), call.saturating_add(1));
            format!("what led there: {}", command(&["dump", &trace, "--calls", &calls]))
        }
        _ if outcome.shares => shown(),
        _ => format!("more of it: {}", command(&["replay", &trace])),
    }
}

/// The calls that had not returned when its recording ended: `call 8 cuCtxSynchronize`.
fn inside(outcome: &Outcome) -> Option<String> {
    let report = outcome.report.as_ref()?;
    let all = report["unfinished"].as_u64().filter(|calls| *calls > 0)?;
    let named = report["inside"].as_array().into_iter().flatten();
    let named = named.filter_map(|of| Some(format!("call {} {}", of["call"].as_u64()?, of["function"].as_str()?)));
    let named: Vec<String> = named.take(NAMED).collect();
    let more = match all.saturating_sub(named.len() as u64) {
        0 => String::new(),
        more => format!(" and {} more", grouped(more)),
    };
    Some(format!("{}{more}", named.join(", ")))
}

/// Calls that are named of one process.
const NAMED: usize = 4;

fn line(outcome: &Outcome) -> String {
    let Some(report) = outcome.report.as_ref().filter(|_| outcome.failed.is_none()) else {
        return outcome.failed.clone().unwrap_or_else(|| "nothing said".into());
    };
    let Some(_) = report["outcome"].as_str() else {
        let reasons = report["reasons"].as_array().map_or(0, Vec::len) as u64;
        let reasons = if reasons == 0 { String::new() } else { format!(", {}", counted(reasons, "reason")) };
        return format!("{}{reasons}", report["verdict"].as_str().unwrap_or("unknown"));
    };
    let number = |field: &str| report[field].as_u64().unwrap_or(0);
    let calls = counted(number("executed") + number("emulated"), "call");
    let elapsed = number("elapsed_ns") as f64 / 1e9;
    let left_out = report["left_out"].as_array();
    let first = left_out
        .and_then(|all| all.iter().filter(|left| left["refused"] == true).min_by_key(|left| left["first"].as_u64()));
    let why = first.and_then(|left| Some(format!(" ({}: {})", left["function"].as_str()?, left["reason"].as_str()?)));
    let why = why.unwrap_or_default();
    // Where nothing could be compared the word says so.
    let behind = report["not_compared"]["behind_refused_in_all"].as_u64().filter(|_| word(outcome) == "verified");
    let behind = behind.unwrap_or(0);
    let refused = except_for(number("refused"), &why, behind);
    let first = &report["first_divergence"];
    let differs = match first["call"].as_u64() {
        Some(call) => {
            let text = |field: &str| first[field].as_str().unwrap_or("?").to_owned();
            let (function, what) = (text("function"), text("what"));
            let (expected, found) = (text("expected"), text("found"));
            format!("; first at call {call} {function}, {what}: expected {expected}, found {found}")
        }
        None => String::new(),
    };
    let word = word(outcome);
    let inside = inside(outcome);
    let unfinished =
        inside.map(|inside| format!("; unfinished when the recording ended: {inside}")).unwrap_or_default();
    let compared = match (word, report["came_back"].as_bool()) {
        ("unverified", Some(false)) => ", as nothing came back",
        ("unverified", Some(true)) => ", as what came back could not be compared",
        _ => "",
    };
    let fault = &report["recorded_fault"];
    let fault = match (fault["result"].as_str(), fault["call"].as_u64()) {
        (Some(result), Some(call)) => format!("; recorded {result} at call {call}"),
        _ => String::new(),
    };
    format!("{word}{compared}{refused}: {calls} in {elapsed:.2} s{fault}{differs}{unfinished}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_nothing_was_verified_and_what_had_failed_is_in_the_line() {
        let of = |came_back: bool| {
            let fault = json!({ "call": 21, "result": "CUDA_ERROR_ILLEGAL_ADDRESS" });
            let report = json!({
                "outcome": "unverified", "came_back": came_back, "launches": 2, "executed": 22, "recorded_fault": fault,
            });
            let (status, report) = (UNVERIFIED, Some(report));
            line(&Outcome { status, report, failed: None, was_ended: false, shares: false, said: Vec::new() })
        };
        let more = "22 calls in 0.00 s; recorded CUDA_ERROR_ILLEGAL_ADDRESS at call 21";
        assert_eq!(of(false), format!("unverified, as nothing came back: {more}"));
        assert_eq!(of(true), format!("unverified, as what came back could not be compared: {more}"));
    }

    #[test]
    fn of_what_was_shared_the_trace_tells_more_than_a_replay_alone() {
        let process = Process { path: "run/a.bin".into(), about: Default::default() };
        let mut outcome = Outcome {
            status: DIVERGED,
            report: Some(json!({ "outcome": "diverged", "first_divergence": { "call": 7 } })),
            failed: None,
            was_ended: false,
            shares: false,
            said: Vec::new(),
        };
        assert_eq!(further(&process, &outcome), "more of it: cutrace replay run/a.bin");
        outcome.shares = true;
        assert_eq!(further(&process, &outcome), "what led there: cutrace dump run/a.bin --calls 2..8");
        outcome.was_ended = true;
        assert_eq!(further(&process, &outcome), "its trace: run/a.bin");
    }
}
