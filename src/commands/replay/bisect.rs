//! `--bisect`: the comparison of two replays after every launch.

use super::explain::Explanation;
use analysis::text::figures::counted;
use replayer::{FirstDifference, Outcome, Report};
use serde_json::{Value, json};
use std::io::Write;

pub(super) fn text(out: &mut impl Write, explained: Option<&Explanation>, report: &Report) -> std::io::Result<()> {
    let Some(Explanation { compared, parting, .. }) = explained.filter(|explained| explained.is_found()) else {
        let launches = counted(report.trail.len() as u64, "launch");
        return match &report.culprit {
            Some(_) => Ok(()),
            None if report.outcome == Outcome::Unverified => {
                writeln!(out, "bisection: no device result is compared, {launches} replayed one by one")
            }
            None if explained.is_some() => Ok(()),
            None => writeln!(out, "bisection: no difference from the recording, {launches} replayed one by one"),
        };
    };
    let launches = counted(*compared, "launch");
    let Some(FirstDifference { call, node, kernel, is_given, memory }) = parting else {
        writeln!(out, "bisection: two replays agree on all of {launches}")?;
        writeln!(out, "  no kernel is nondeterministic: both replays differ from the recording")?;
        return told_of_parts(out, report);
    };
    let what = match (is_given, memory.is_empty()) {
        (true, _) if is_partly(report) => "has other input in a second replay",
        (true, _) => "has other input in a second replay, which no launch wrote",
        (false, true) => "is launched in one of two replays only",
        (false, false) => "computes another result in a second replay",
    };
    writeln!(out, "bisection: the first of {launches} that {what}:")?;
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
        writeln!(out, "  allocations over 64 MiB were compared only near the addresses in use")?;
    }
    Ok(())
}

pub(super) fn object(explained: &Explanation, report: &Report) -> Value {
    json!({
        "compared": explained.compared,
        "in_parts": is_partly(report),
        "first": explained.parting.as_ref().map(|first| json!({
            "call": first.call,
            "node": first.node,
            "kernel": first.kernel,
            "inputs_differ": first.is_given,
            "memory": first.memory,
        })),
    })
}
