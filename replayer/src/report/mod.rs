//! The results of a replay.
//!
//! Imports `run/` and the layers below; only `replay.rs` imports it.

pub(crate) mod relocation_coverage;

use crate::diagnose::bisection::Entry;
use crate::diagnose::culprit::Culprit;
use crate::diagnose::serial_launches::{SerialLaunches, SerialReport};
use crate::driver::result_name;
use crate::profile::Measurement;
use crate::run::repeat::timing::RepeatTimes;
use crate::run::state::Run;
use crate::tally::Tally;
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use trace::model::outstanding::Work;

/// The result of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Everything that was compared agreed: some bytes from the device among it, and if kernels were
    /// launched, some that a launch can have written. (Calls that were refused are counted beside it.)
    Verified,
    /// A compared result differs from the recording.
    Diverged,
    /// Nothing the device computed was compared: not a pass.
    #[default]
    Unverified,
    /// Nothing was to be compared.
    Replayed,
    /// Stopped where it was asked to, and nothing before that differs.
    Stopped,
    /// A launch failed as one did when recorded, and is named.
    Faulted,
}

impl Outcome {
    /// The word for the outcome in reports and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Verified => "verified",
            Outcome::Diverged => "diverged",
            Outcome::Unverified => "unverified",
            Outcome::Replayed => "replayed",
            Outcome::Stopped => "stopped",
            Outcome::Faulted => "faulted",
        }
    }
}

/// Counts of memory by its placement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementCounts {
    /// Allocations at their recorded addresses, and elsewhere.
    pub placed: u64,
    /// Device allocations at other addresses.
    pub translated: u64,
    /// Pinned host memory at its recorded addresses.
    pub host_placed: u64,
    /// Pinned host memory at other addresses.
    pub host_translated: u64,
    /// Bytes of device memory that the replay mapped.
    pub bytes: u64,
    /// Pieces of device memory that could not be filled with zeros before use.
    pub unfilled: u64,
    /// Allocations of memory that another stream freed, which here do not wait for it as the driver had them
    /// do.
    pub unordered: u64,
    /// The first reason for which memory is elsewhere, if the driver gave one.
    #[serde(rename = "why_elsewhere")]
    pub why: Option<String>,
}

/// The counts and findings of a replay.
#[derive(Debug, Clone)]
pub struct Report {
    /// The result.
    pub outcome: Outcome,
    /// Calls of the trace.
    pub calls: u64,
    /// What its workers found.
    pub tally: Tally,
    /// Calls that the driver made to itself within another call: not replayed.
    pub inner: u64,
    /// Calls under way when the recording ended: not executed.
    pub unfinished: u64,
    /// Whether the program brought to the CPU what the device had computed, compared or not, for all that is
    /// known.
    pub copied_results: bool,
    /// Whether kernels printed what the recorded program's output lacks.
    pub printed_otherwise: bool,
    /// Launches among the calls.
    pub launches: u64,
    /// Launches whose effect reached no comparison, by their calls.
    pub unreached: Vec<u64>,
    /// Submissions to one stream that overlapped when recorded: entry order was assumed.
    pub overlapping_submissions: u64,
    /// Where memory lies, against its recorded addresses.
    pub placement: PlacementCounts,
    /// The call that the replay was asked to stop before.
    pub stopped_before: Option<(u64, String)>,
    /// If launches went one at a time.
    pub watched: Option<SerialReport>,
    /// The launch that failed, if they did and one was found. The replay has stopped there.
    pub culprit: Option<Culprit>,
    /// A failure of earlier work that the program had met, and the call that told it.
    pub recorded_fault: Option<(String, u64)>,
    /// What every launch made of memory, if that was asked for.
    pub trail: Vec<Entry>,
    /// How the device's times were taken, if they were.
    pub measured: Option<Measurement>,
    /// What the repeated range took.
    pub repeated: Option<RepeatTimes>,
    /// Work that did not come to an end, and of which the recording does not tell that it did.
    pub under_way: Vec<Work>,
    /// Time from the start of the replay to its end.
    pub elapsed: Duration,
}

impl Report {
    pub(crate) fn new(run: &mut Run, tally: Tally, elapsed: Duration) -> Report {
        let is_followed = run.watch.as_ref().is_some_and(SerialLaunches::is_followed);
        let (watched, culprit, trail) = run.watch.take().map_or((None, None, Vec::new()), |watch| {
            let (watched, culprit, trail) = watch.into_results();
            (Some(watched), culprit, trail)
        });
        let (plan, counts) = (run.plan, &run.placement.counts);
        let stopped_before = run.trace.call(run.end).map(|call| (call.number, call.name().to_owned()));
        let (launches, unreached) =
            plan.comparability.reach.unreached_below(run.end, |call| tally.compared.contains(&call));
        let has_compared = tally.checked.bytes > 0 && (launches == 0 || (unreached.len() as u64) < launches);
        let outcome = match tally.divergences {
            _ if culprit.as_ref().is_some_and(Culprit::is_as_recorded) => Outcome::Faulted,
            _ if culprit.is_some() => Outcome::Diverged,
            _ if !run.verify => Outcome::Replayed,
            // Who looks for what differs has not been told by a replay that compares nothing.
            0 if stopped_before.is_some() && (has_compared || !is_followed) => Outcome::Stopped,
            0 if has_compared => Outcome::Verified,
            0 => Outcome::Unverified,
            _ => Outcome::Diverged,
        };
        Report {
            outcome,
            calls: run.trace.len() as u64,
            copied_results: has_results(run, &tally),
            printed_otherwise: false,
            tally,
            inner: plan.counts.inner,
            unfinished: plan.counts.unfinished.len() as u64,
            launches,
            unreached,
            overlapping_submissions: plan.counts.overlapping_submissions,
            placement: PlacementCounts {
                placed: counts.placed.load(Relaxed),
                translated: counts.translated.load(Relaxed),
                host_placed: counts.host_placed.load(Relaxed),
                host_translated: counts.host_translated.load(Relaxed),
                bytes: counts.bytes.load(Relaxed),
                unfilled: counts.unfilled.load(Relaxed),
                unordered: counts.unordered.load(Relaxed),
                why: counts.why.get().cloned(),
            },
            stopped_before,
            watched,
            culprit,
            recorded_fault: plan.fault.map(|fault| (result_name(fault.code), fault.returned_by)),
            trail,
            measured: None,
            repeated: None,
            under_way: Vec::new(),
            elapsed,
        }
    }

    /// That launches were made, and that nothing of what they computed was compared.
    pub fn compared_no_launch(&self) -> bool {
        self.launches > 0 && (self.tally.checked.bytes == 0 || self.unreached.len() as u64 >= self.launches)
    }

    /// Calls that mattered and could not be made.
    pub fn refused(&self) -> u64 {
        self.tally.left_out().iter().filter(|left| left.refused).map(|left| left.count).sum()
    }
}

fn has_results(run: &Run, tally: &Tally) -> bool {
    let is_result = |call: u64| tally.compared.contains(&call) || !tally.unchanged.contains(&call);
    let (launches, unreached) = run.plan.comparability.reach.count_below(run.end, is_result);
    let any_bytes = tally.checked.bytes > 0 && launches == 0;
    // What uses memory of others may have brought some of it.
    let is_absent = !run.plan.job.refusals.is_empty();
    any_bytes || unreached < launches || tally.unchecked_copies > 0 || run.plan.comparability.shares_unseen || is_absent
}
