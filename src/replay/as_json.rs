//! How a replay came out, as JSON.

use super::culprit;
use crate::replay::comparison;
use replayer::{Options, Outcome, Plan, Report, bisection};
use serde_json::{Value, json};
use std::io::Write;
use trace::Trace;
use trace::read::shared_handles::exports;

/// Version of the JSON form. Fields may be added within a version.
pub const SCHEMA: u32 = 1;

/// Calls that were not compared which JSON names: a trace may hold a hundred million.
pub const LISTED: usize = 1000;

/// Those that JSON names.
fn listed(trace: &Trace, calls: impl Iterator<Item = u64>) -> Vec<Value> {
    let made = |number| {
        let call = trace.call(number);
        let kernel = call.as_ref().and_then(trace::Call::named_kernel).map(|kernel| &kernel.name);
        json!({ "call": number, "function": call.as_ref().map(trace::Call::name), "kernel": kernel })
    };
    calls.take(LISTED).map(made).collect()
}

/// The first difference; null if there is none.
pub fn first(report: &Report) -> Value {
    report.tally.first.as_ref().map_or(Value::Null, |first| {
        json!({
            "call": first.call,
            "function": first.function,
            "thread": first.thread,
            "what": first.what,
            "offset": first.offset,
            "expected": first.expected,
            "found": first.found,
            "extent": first.extent.as_ref().map(comparison::object),
            "launches": first.launches.iter().map(|(call, kernel)| json!({ "call": call, "kernel": kernel }))
                .collect::<Vec<_>>(),
        })
    })
}

fn outcome(report: &Report) -> &'static str {
    match report.outcome {
        Outcome::Verified => "verified",
        Outcome::Diverged => "diverged",
        Outcome::Unverified => "unverified",
        Outcome::Replayed => "replayed",
        Outcome::Faulted => "faulted",
        Outcome::Stopped => "stopped",
    }
}

/// What an explanation takes of another replay: an object, and what every launch made of memory in the lines
/// behind it.
pub fn evidence(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let shown = json!({ "outcome": outcome(report), "first_divergence": first(report) });
    writeln!(out, "{}", crate::json::text(&shown)?)?;
    out.write_all(bisection::write(&report.trail).as_bytes())
}

pub fn object(trace: &Trace, plan: &Plan, report: &Report, options: &Options) -> Value {
    let fault = report.recorded_fault.as_ref();
    let mut object = json!({
        "schema": SCHEMA,
        "outcome": outcome(report),
        "came_back": report.came_back,
        "verdict": plan.verdict.name(),
        "reasons": plan.reasons.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "driver": options.driver.display().to_string(),
        "verify": options.verify,
        "calls": trace.len(),
        "executed": report.tally.executed,
        "emulated": report.tally.emulated,
        "alone": plan.alone.as_ref().map(|_| json!({
            "launches": report.tally.delivered, "bytes": report.tally.delivered_bytes,
        })),
        "shared_memory": plan.alone.as_ref().filter(|alone| alone.keeps_memory).map(|_| json!({
            "calls": report.tally.held, "bytes": report.tally.held_bytes,
        })),
        "left_out": report.tally.left_out().iter().map(|left| json!({
            "function": left.function,
            "reason": left.reason,
            "refused": left.refused,
            "count": left.count,
            "first": left.first,
        })).collect::<Vec<_>>(),
        "refused": report.refused(),
        "variables_not_set": plan.environment.left_out,
        "inner": report.inner,
        "unfinished": report.unfinished,
        "inside": listed(trace, plan.unfinished.iter().copied()),
        "under_way": report.under_way.iter().map(|work| json!({ "stream": work.stream, "calls": work.calls })).collect::<Vec<_>>(),
        "checked": {
            "results": report.tally.checked.results,
            "outputs": report.tally.checked.outputs,
            "copies": report.tally.checked.copies,
            "bytes": report.tally.checked.bytes,
            "within_tolerance": report.tally.checked.within_tolerance,
        },
        "unchecked_copies": report.tally.unchecked_copies,
        "launches": report.launches,
        "unreached_launches": report.unreached.len(),
        "not_compared": not_compared(trace, report),
        "unresolved_pointers": report.tally.unresolved_pointers,
        "translated_words": {
            "payloads": report.tally.words.payloads,
            "arguments": report.tally.words.arguments,
            "results": report.tally.words.results,
            "learned": report.tally.words.learned,
            "left": report.tally.words.left,
        },
        "unknown_handles": report.tally.unknown_handles,
        "other_numbers": report.tally.other_numbers,
        "written_by_cpu": report.tally.written,
        "others_at_the_end": report.tally.others_at_the_end,
        "written_in_use": report.tally.written_in_use,
        "lost_writes": report.tally.lost_writes,
        "missed_callbacks": report.tally.missed_callbacks,
        "overlapping_submissions": report.overlapping_submissions,
        "placement": placement(report),
        "divergences": report.tally.divergences,
        "first_divergence": first(report),
        "stopped_before": report.stopped_before.as_ref().map(|(call, _)| call),
        "one_by_one": report.watched.as_ref().map(culprit::watched_object),
        "culprit": report.culprit.as_ref().map(|found| culprit::object(trace, found)),
        "elapsed_ns": report.elapsed.as_nanos() as u64,
    });
    // One field more than the macro takes at once.
    object["recorded_fault"] = json!(fault.map(|(result, call)| json!({ "call": call, "result": result })));
    object
}

/// What nothing could be compared of, by name up to a limit.
fn not_compared(trace: &Trace, report: &Report) -> Value {
    json!({
        "copies": listed(trace, report.tally.unchecked.iter().copied()),
        "copies_in_all": report.tally.unchecked.len(),
        "behind_refused": report.tally.behind_refused.iter().take(LISTED).map(|(call, refused)| {
            let is_exported = trace.call(*refused).is_some_and(|call| exports(&call));
            json!({ "call": call, if is_exported { "exported" } else { "refused" }: refused })
        }).collect::<Vec<_>>(),
        "behind_refused_in_all": report.tally.behind_refused.len(),
        "launches": listed(trace, report.unreached.iter().copied()),
        "launches_in_all": report.unreached.len(),
    })
}

/// How much memory is where it was recorded.
fn placement(report: &Report) -> Value {
    let placed = &report.placement;
    json!({
        "placed": placed.placed,
        "translated": placed.translated,
        "host_placed": placed.host_placed,
        "host_translated": placed.host_translated,
        "bytes": placed.bytes,
        "unfilled": placed.unfilled,
        "unordered": placed.unordered,
        "why_elsewhere": placed.why,
    })
}
