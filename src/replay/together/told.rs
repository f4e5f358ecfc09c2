//! What came of the replay of a job: a line a process, and the whole.

use super::process::{Outcome, Process};
use crate::exit::{DIVERGED, DONE, UNREADABLE, UNVERIFIED};
use crate::figures::{counted, grouped};
use crate::replay::as_json::SCHEMA;
use crate::results::Results;
use anyhow::Result;
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;
use trace::text::plain;

pub struct Whole<'a> {
    pub processes: &'a [Process],
    pub outcomes: &'a [Outcome],
    /// A trace of the job is missing or cannot be read.
    pub is_incomplete: bool,
    /// Which process failed first, and why.
    pub why: Option<String>,
    /// Calls that opened what other processes share.
    pub opened: u64,
    pub elapsed: Duration,
}

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
            false if self.is_incomplete => UNREADABLE,
            false if of(&is_unverified) => UNVERIFIED,
            false => DONE,
        }
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

    pub fn tell(&self, as_json: bool) -> Result<()> {
        let mut out = Results::begin();
        if as_json {
            serde_json::to_writer_pretty(&mut out, &self.object())?;
            writeln!(out)?;
            return Ok(out.flush()?);
        }
        for (process, outcome) in self.processes.iter().zip(self.outcomes) {
            let program = process.about.program.rsplit('/').next().unwrap_or_default();
            writeln!(out, "{}", plain(&format!("{} {program}: {}", process.name(), line(outcome))))?;
            if outcome.status != DONE && outcome.failed.is_none() {
                outcome.said.iter().try_for_each(|said| writeln!(out, "  {}", plain(said)))?;
            }
        }
        let (processes, opened) = (counted(self.outcomes.len() as u64, "process"), counted(self.opened, "handle"));
        let shared =
            if self.opened == 0 { String::new() } else { format!(", {opened} of one process opened by another") };
        let why = self.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let missing = if self.is_incomplete { "; a trace of the job is missing or cannot be read" } else { "" };
        let elapsed = self.elapsed.as_secs_f64();
        writeln!(out, "{}", plain(&format!("{}: {processes} in {elapsed:.2} s{shared}{why}{missing}", self.word())))?;
        Ok(out.flush()?)
    }

    fn object(&self) -> Value {
        let one = |(process, outcome): (&Process, &Outcome)| {
            json!({
                "trace": process.path.display().to_string(),
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
            "incomplete": self.is_incomplete,
            "handles_opened": self.opened,
            "elapsed_ns": self.elapsed.as_nanos() as u64,
            "processes": self.processes.iter().zip(self.outcomes).map(one).collect::<Vec<_>>(),
        })
    }
}

fn said<'o>(outcome: &'o Outcome, field: &str) -> Option<&'o str> {
    outcome.report.as_ref()?[field].as_str()
}

/// Whether there was nothing to compare: it had no memory on a device, as a launcher that only asks for devices.
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

fn line(outcome: &Outcome) -> String {
    let Some(report) = outcome.report.as_ref().filter(|_| outcome.failed.is_none()) else {
        return outcome.failed.clone().unwrap_or_else(|| "nothing said".into());
    };
    let Some(word) = report["outcome"].as_str() else {
        let reasons = report["reasons"].as_array().map_or(0, Vec::len) as u64;
        let reasons = if reasons == 0 { String::new() } else { format!(", {}", counted(reasons, "reason")) };
        return format!("{}{reasons}", report["verdict"].as_str().unwrap_or("unknown"));
    };
    let number = |field: &str| report[field].as_u64().unwrap_or(0);
    let calls = counted(number("executed") + number("emulated"), "call");
    let elapsed = number("elapsed_ns") as f64 / 1e9;
    let refused = match number("refused") {
        0 => String::new(),
        1 => ", except for 1 call that was refused".into(),
        n => format!(", except for {} calls that were refused", grouped(n)),
    };
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
    let word = if word == "unverified" && has_nothing(outcome) { "nothing to compare" } else { word };
    format!("{word}{refused}: {calls} in {elapsed:.2} s{differs}")
}
