//! How a replay came out, as JSON.

use super::culprit;
use replayer::{Options, Plan, Report};
use serde_json::{Value, json};
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

pub fn object(trace: &Trace, plan: &Plan, report: &Report, options: &Options) -> Value {
    let fault = report.recorded_fault.as_ref();
    let mut object = json!({
        "schema": SCHEMA,
        "outcome": report.outcome,
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
        "left_out": report.tally.left_out(),
        "refused": report.refused(),
        "variables_not_set": plan.environment.left_out,
        "inner": report.inner,
        "unfinished": report.unfinished,
        "inside": listed(trace, plan.unfinished.iter().copied()),
        "under_way": report.under_way.iter().map(|work| json!({ "stream": work.stream, "calls": work.calls })).collect::<Vec<_>>(),
        "checked": report.tally.checked,
        "unchecked_copies": report.tally.unchecked_copies,
        "launches": report.launches,
        "unreached_launches": report.unreached.len(),
        "not_compared": not_compared(trace, report),
        "unresolved_pointers": report.tally.unresolved_pointers,
        "translated_words": report.tally.words,
        "unknown_handles": report.tally.unknown_handles,
        "other_numbers": report.tally.other_numbers,
        "written_by_cpu": report.tally.written,
        "others_at_the_end": report.tally.others_at_the_end,
        "written_in_use": report.tally.written_in_use,
        "lost_writes": report.tally.lost_writes,
        "missed_callbacks": report.tally.missed_callbacks,
        "overlapping_submissions": report.overlapping_submissions,
        "placement": report.placement,
        "divergences": report.tally.divergences,
        "first_divergence": report.tally.first,
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
