//! The result of a replay, as one typed value: `--json` prints it, and a replay of a job sends it to the
//! coordinator.

use super::culprit;
use crate::verdict;
use replayer::{CheckCounts, Divergence, LeftOut, Options, Outcome, PlacementCounts, Plan, Report, Verdict, Words};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use trace::Trace;
use trace::read::shared_handles::exports;

/// Version of the JSON form. Fields may be added within a version.
pub(super) const SCHEMA: u32 = 1;

/// Calls that were not compared which JSON names: a trace may hold a hundred million.
pub(super) const LISTED: usize = 1000;

/// A type, and `new`, which makes it: each field with its source.
macro_rules! summary {
    (
        $(#[$about:meta])* $name:ident($($from:ident: $of:ty),*) {
            $($(#[$note:meta])* $field:ident: $kind:ty = $source:expr,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Default, Serialize, Deserialize)]
        pub(crate) struct $name {
            $($(#[$note])* pub $field: $kind,)*
        }

        impl $name {
            pub(crate) fn new($($from: $of),*) -> $name {
                $name { $($field: $source,)* }
            }
        }
    };
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum ReplaySummary {
    Replayed(Box<Replayed>),
    /// A dry run, or a trace that cannot be replayed.
    Planned(Planned),
}

summary! {
    /// Values of JSON are only printed: nothing here reads them.
    Replayed(trace: &Trace, plan: &Plan, report: &Report, options: &Options) {
        schema: u32 = SCHEMA,
        outcome: Outcome = report.outcome,
        copied_results: bool = report.copied_results,
        verdict: Verdict = plan.judgement.verdict,
        reasons: Vec<String> = plan.judgement.reasons.iter().map(ToString::to_string).collect(),
        driver: String = options.driver.display().to_string(),
        verify: bool = options.verify,
        calls: usize = trace.len(),
        executed: u64 = report.tally.executed,
        emulated: u64 = report.tally.emulated,
        alone: Value = plan.job.single_rank.as_ref().map_or(Value::Null, |_| {
            json!({ "launches": report.tally.delivered, "bytes": report.tally.delivered_bytes })
        }),
        shared_memory: Value = plan.job.single_rank.as_ref().filter(|alone| alone.keeps_memory).map_or(Value::Null, |_| {
            json!({ "calls": report.tally.held, "bytes": report.tally.held_bytes })
        }),
        left_out: Vec<LeftOut> = report.tally.left_out(),
        refused: u64 = report.refused(),
        variables_not_set: Vec<String> = plan.environment.left_out.clone(),
        inner: u64 = report.inner,
        unfinished: u64 = report.unfinished,
        inside: Vec<ListedCall> = listed(trace, plan.counts.unfinished.iter().copied()),
        under_way: Value =
            report.under_way.iter().map(|work| json!({ "stream": work.stream, "calls": work.calls })).collect(),
        checked: CheckCounts = report.tally.checked,
        unchecked_copies: u64 = report.tally.unchecked_copies,
        launches: u64 = report.launches,
        unreached_launches: usize = report.unreached.len(),
        not_compared: NotCompared = NotCompared::new(trace, report),
        unresolved_pointers: u64 = report.tally.unresolved_pointers,
        translated_words: Words = report.tally.words,
        unknown_handles: u64 = report.tally.unknown_handles,
        other_numbers: u64 = report.tally.other_numbers,
        written_by_cpu: u64 = report.tally.written,
        others_at_the_end: u64 = report.tally.others_at_the_end,
        written_in_use: u64 = report.tally.written_in_use,
        lost_writes: u64 = report.tally.lost_writes,
        missed_callbacks: u64 = report.tally.missed_callbacks,
        overlapping_submissions: u64 = report.overlapping_submissions,
        placement: PlacementCounts = report.placement.clone(),
        divergences: u64 = report.tally.divergences,
        first_divergence: Option<Divergence> = report.tally.first.clone(),
        stopped_before: Option<u64> = report.stopped_before.as_ref().map(|(call, _)| *call),
        serial_launches: Value = report.watched.as_ref().map_or(Value::Null, culprit::watched_object),
        culprit: Value = report.culprit.as_ref().map_or(Value::Null, |found| culprit::object(trace, found)),
        elapsed_ns: u64 = report.elapsed.as_nanos() as u64,
        recorded_fault: Option<RecordedFault> =
            report.recorded_fault.clone().map(|(result, call)| RecordedFault { call, result }),
        explanation: Value = Value::Null,
        profile: Value = Value::Null,
        #[serde(rename = "loop")]
        repeated: Value = Value::Null,
        printed: Value = Value::Null,
        bisection: Value = Value::Null,
    }
}

summary! {
    /// `place`: memory is put back at its addresses.
    Planned(trace: &Trace, plan: &Plan, place: bool) {
        schema: u32 = SCHEMA,
        /// Null: nothing was replayed.
        outcome: () = (),
        verdict: Verdict = plan.judgement.verdict,
        reasons: Vec<String> = plan.judgement.reasons.iter().map(ToString::to_string).collect(),
        notes: Vec<String> = verdict::notes(trace, plan),
        calls: usize = trace.len(),
        launches: u64 = plan.counts.launches,
        unreached_launches: u64 = plan.counts.unreached_launches,
        unfinished: u64 = plan.counts.unfinished.len() as u64,
        overlapping_submissions: u64 = plan.counts.overlapping_submissions,
        device_bytes: u64 = plan.device_memory().1,
        host_bytes: u64 = plan.host_memory(),
        devices: Vec<i32> = plan.devices.used.iter().copied().collect(),
        place: bool = place,
    }
}

summary! {
    /// What nothing could be compared of, by name up to a limit.
    NotCompared(trace: &Trace, report: &Report) {
        copies: Vec<ListedCall> = listed(trace, report.tally.unchecked.iter().copied()),
        copies_in_all: usize = report.tally.unchecked.len(),
        dependents: Value = report.tally.dependents.iter().take(LISTED).map(|(call, refused)| {
            let is_exported = trace.call(*refused).is_some_and(|call| exports(&call));
            json!({ "call": call, if is_exported { "exported" } else { "refused" }: refused })
        }).collect(),
        dependents_in_all: u64 = report.tally.dependents.len() as u64,
        launches: Vec<ListedCall> = listed(trace, report.unreached.iter().copied()),
        launches_in_all: usize = report.unreached.len(),
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct RecordedFault {
    pub call: u64,
    pub result: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ListedCall {
    pub call: u64,
    pub function: Option<String>,
    kernel: Option<String>,
}

/// Those that JSON names.
fn listed(trace: &Trace, calls: impl Iterator<Item = u64>) -> Vec<ListedCall> {
    let listed = |number| {
        let call = trace.call(number);
        let kernel = call.as_ref().and_then(trace::Call::named_kernel).map(|kernel| kernel.name.clone());
        ListedCall { call: number, function: call.map(|call| call.name().to_owned()), kernel }
    };
    calls.take(LISTED).map(listed).collect()
}
