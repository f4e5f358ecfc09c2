//! `--bisect`: the second replay, in a process of its own, and what two of them tell.

use crate::exit::{DIVERGED, DONE, FAILED, UNVERIFIED, failure};
use crate::figures::counted;
use anyhow::{Context, Result};
use replayer::{Bisection, Outcome, Parting, Report, bisection};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

/// In the second process: what every launch made of memory.
pub fn leave(path: &Path, report: &Report) -> Result<()> {
    fs::write(path, bisection::write(&report.trail)).with_context(|| path.display().to_string())
}

/// In the first: replays once more, and compares. None if there is nothing to find.
pub fn second(report: &Report) -> Result<Option<Bisection>> {
    if report.outcome != Outcome::Diverged || report.culprit.is_some() {
        return Ok(None);
    }
    let end = report.trail.iter().map(|entry| entry.call).max().unwrap_or(0);
    let trail = tempfile::Builder::new().prefix("cutrace-").tempfile().context("a temporary file")?;
    let program = env::current_exe().context("the path of cutrace")?;
    let mut again = Command::new(program);
    again.args(env::args_os().skip(1)).arg("--trail").arg(trail.path()).arg("--trail-end").arg(end.to_string());
    // Its layout is its own affair.
    again.env_remove(crate::layout::TRIES).stdin(Stdio::null());
    let done = again.output().context("the second replay")?;
    let is_done = done.status.code().is_some_and(|code| [DONE, DIVERGED, UNVERIFIED].map(i32::from).contains(&code));
    if !is_done {
        let said = String::from_utf8_lossy(&done.stderr);
        let why = said.trim().lines().last().unwrap_or("nothing said");
        return Err(failure(FAILED, format_args!("the second replay of --bisect failed ({}): {why}", done.status)));
    }
    let text = fs::read_to_string(trail.path()).context("what the second replay left")?;
    let other = bisection::read(&text).context("what the second replay left is damaged")?;
    Ok(Some(bisection::bisect(report.trail.clone(), other)))
}

pub fn text(out: &mut impl Write, bisection: Option<&Bisection>, report: &Report) -> std::io::Result<()> {
    let Some(Bisection { compared, first }) = bisection else {
        let launches = counted(report.trail.len() as u64, "launch");
        return match &report.culprit {
            Some(_) => Ok(()),
            None if report.outcome == Outcome::Unverified => {
                writeln!(out, "bisection: nothing that the device computed is compared, of {launches} made one by one")
            }
            None => writeln!(out, "bisection: nothing differs from the recording, with {launches} made one by one"),
        };
    };
    let launches = counted(*compared, "launch");
    let Some(Parting { call, node, kernel, is_given, memory }) = first else {
        writeln!(out, "bisection: two replays agree at all of {launches}")?;
        writeln!(
            out,
            "  no kernel computes otherwise from run to run: the replay differs from the recording both times"
        )?;
        return told_of_parts(out, report);
    };
    let what = match (is_given, memory.is_empty()) {
        (true, _) if is_partly(report) => "was given other memory in a second replay",
        (true, _) => "was given other memory in a second replay, which no launch had made",
        (false, true) => "was made in one of two replays only",
        (false, false) => "did not compute the same in a second replay",
    };
    writeln!(out, "bisection: of {launches} up to there, the first that {what}:")?;
    let node = node.map_or_else(String::new, |node| format!(", node {} of its graph", node + 1));
    writeln!(out, "  call {call} {kernel}{node}")?;
    if !memory.is_empty() {
        writeln!(out, "  differs in   {}", memory.join(", "))?;
    }
    told_of_parts(out, report)
}

/// Whether long allocations were looked at in parts.
fn is_partly(report: &Report) -> bool {
    report.trail.iter().any(|entry| entry.before.keys().any(|name| name.contains('+')))
}

fn told_of_parts(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    if is_partly(report) {
        writeln!(out, "  of allocations longer than 64 MiB only what follows an address was looked at")?;
    }
    Ok(())
}

pub fn object(bisection: &Bisection, report: &Report) -> Value {
    json!({
        "compared": bisection.compared,
        "in_parts": is_partly(report),
        "first": bisection.first.as_ref().map(|first| json!({
            "call": first.call,
            "node": first.node,
            "kernel": first.kernel,
            "inputs_differ": first.is_given,
            "memory": first.memory,
        })),
    })
}
