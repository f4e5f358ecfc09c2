//! What a replay did and what it found.

use crate::check::bisection::Entry;
use crate::check::extent::Extent;
use crate::driver::result_name;
use crate::memory::words::Words;
use crate::plan::outstanding::Work;
use crate::profile::Measured;
use crate::run::culprit::Culprit;
use crate::run::launches::{Watch, Watched};
use crate::run::repeat::Repeated;
use crate::run::world::World;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that was compared agreed: some bytes from the device among it, and if kernels were launched, some
    /// that a launch can have written. (Calls that were refused are counted beside it.)
    Verified,
    Diverged,
    /// Nothing the device computed was compared: not a pass.
    Unverified,
    /// Nothing was to be compared.
    Replayed,
    /// Stopped where it was asked to, and nothing before that differs.
    Stopped,
    /// A launch failed as one did when recorded, and is named.
    Faulted,
}

/// What was compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checked {
    /// Result codes.
    pub results: u64,
    /// Values that calls handed out.
    pub outputs: u64,
    /// Copies from the device to the host, and their bytes.
    pub copies: u64,
    pub bytes: u64,
    /// Copies among those that agree within the tolerance, and not byte for byte.
    pub within_tolerance: u64,
}

/// A place where the replay and the recording differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Divergence {
    pub call: u64,
    pub function: String,
    pub thread: u32,
    /// The result, a parameter, or the bytes of a copy.
    pub what: String,
    /// Bytes from the start of what differs; none where only a hash was recorded.
    pub offset: Option<u64>,
    pub expected: String,
    pub found: String,
    /// Of the bytes of a copy.
    pub extent: Option<Extent>,
    /// The last launches that were given this memory, latest first: call and kernel.
    pub launches: Vec<(u64, String)>,
}

/// Calls of one function left out for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub function: String,
    pub reason: String,
    /// It mattered, and could not be done.
    pub refused: bool,
    pub count: u64,
    pub first: u64,
}

/// Where memory went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placed {
    /// Allocations at their recorded addresses, and elsewhere.
    pub placed: u64,
    pub translated: u64,
    pub host_placed: u64,
    pub host_translated: u64,
    pub bytes: u64,
    /// Pieces of device memory that could not be filled with zeros before use.
    pub unfilled: u64,
    /// Allocations of memory that another stream freed, which here do not wait for it as the driver had them do.
    pub unordered: u64,
    /// The first reason for which memory is elsewhere, if the driver gave one.
    pub why: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Report {
    pub outcome: Outcome,
    /// Calls of the trace.
    pub calls: u64,
    /// What its workers found.
    pub tally: Tally,
    pub inner: u64,
    /// Calls under way when the recording ended: not executed.
    pub unfinished: u64,
    /// Whether the program brought to the CPU what the device had computed, compared or not, for all that is known.
    pub came_back: bool,
    pub launches: u64,
    /// Launches whose effect reached no comparison, by their calls.
    pub unreached: Vec<u64>,
    /// Submissions to one stream that overlapped when recorded: entry order was assumed.
    pub overlapping_submissions: u64,
    pub placement: Placed,
    /// The call that the replay was asked to stop before.
    pub stopped_before: Option<(u64, String)>,
    /// If launches went one at a time.
    pub watched: Option<Watched>,
    /// The launch that failed, if they did and one was found. The replay has stopped there.
    pub culprit: Option<Culprit>,
    /// A failure of earlier work that the program had met, and the call that told it.
    pub recorded_fault: Option<(String, u64)>,
    /// What every launch made of memory, if that was asked for.
    pub trail: Vec<Entry>,
    /// How the device's times were taken, if they were.
    pub measured: Option<Measured>,
    /// What the repeated range took.
    pub repeated: Option<Repeated>,
    /// Work that did not come to an end, and of which the recording does not tell that it did.
    pub under_way: Vec<Work>,
    pub elapsed: Duration,
}

impl Report {
    pub fn new(world: &mut World, tally: Tally, elapsed: Duration) -> Report {
        let is_followed = world.watch.as_ref().is_some_and(Watch::is_followed);
        let (watched, culprit, trail) = world.watch.take().map_or((None, None, Vec::new()), |watch| {
            let (watched, culprit, trail) = watch.into_results();
            (Some(watched), culprit, trail)
        });
        let (plan, counts) = (world.plan, &world.placement.counts);
        let stopped_before = world.trace.call(world.end).map(|call| (call.number, call.name().to_owned()));
        let (launches, unreached) = plan.reach.unreached_below(world.end, |call| tally.compared.contains(&call));
        let has_compared = tally.checked.bytes > 0 && (launches == 0 || (unreached.len() as u64) < launches);
        let outcome = match tally.divergences {
            _ if culprit.as_ref().is_some_and(Culprit::is_as_recorded) => Outcome::Faulted,
            _ if culprit.is_some() => Outcome::Diverged,
            _ if !world.verify => Outcome::Replayed,
            // Who looks for what differs has not been told by a replay that compares nothing.
            0 if stopped_before.is_some() && (has_compared || !is_followed) => Outcome::Stopped,
            0 if has_compared => Outcome::Verified,
            0 => Outcome::Unverified,
            _ => Outcome::Diverged,
        };
        Report {
            outcome,
            calls: world.trace.len() as u64,
            came_back: came_back(world, &tally),
            tally,
            inner: plan.inner,
            unfinished: plan.unfinished.len() as u64,
            launches,
            unreached,
            overlapping_submissions: plan.overlapping_submissions,
            placement: Placed {
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
            recorded_fault: plan.fault.map(|fault| (result_name(fault.code), fault.heard)),
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

    pub fn refused(&self) -> u64 {
        self.tally.left_out().iter().filter(|left| left.refused).map(|left| left.count).sum()
    }

    pub fn skipped(&self) -> u64 {
        self.tally.left_out().iter().filter(|left| !left.refused).map(|left| left.count).sum()
    }
}

fn came_back(world: &World, tally: &Tally) -> bool {
    let is_result = |call: u64| tally.compared.contains(&call) || !tally.unchanged.contains(&call);
    let (launches, unreached) = world.plan.reach.count_below(world.end, is_result);
    let any_bytes = tally.checked.bytes > 0 && launches == 0;
    any_bytes || unreached < launches || tally.unchecked_copies > 0 || world.plan.shares_unseen
}

/// What a worker, or all of them, did and found.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub executed: u64,
    /// Memory calls whose effect was reached in another way.
    pub emulated: u64,
    pub checked: Checked,
    /// Copies to the host whose bytes could not be compared.
    pub unchecked_copies: u64,
    /// The calls that brought some of them.
    pub unchecked: BTreeSet<u64>,
    /// The calls whose bytes were compared.
    pub compared: HashSet<u64>,
    /// The calls behind which host memory that kernels had been given was found as it had been before.
    pub unchanged: HashSet<u64>,
    /// Values in kernel arguments that look like addresses and lie in no known memory; passed unchanged.
    pub unresolved_pointers: u64,
    /// Addresses of memory that is elsewhere, in payloads, arguments and results.
    pub words: Words,
    /// Calls that failed when recorded and name an object that is gone, or that no call of the trace made: left out.
    pub unknown_handles: u64,
    /// Texture and surface objects whose numbers are others here: not found where a program keeps them in memory.
    pub other_numbers: u64,
    /// Bytes of memory that the recorded CPU had written without a call.
    pub written: u64,
    /// Pieces of it that were written while the device may have been reading them.
    pub written_in_use: u64,
    /// Bytes of managed memory, by whole pieces, that are not what the CPU had when the recording ended.
    pub others_at_the_end: u64,
    /// Pieces of it that could not be written.
    pub lost_writes: u64,
    /// Runs of callbacks that the recorded program had and the replay waited for in vain.
    pub missed_callbacks: u64,
    pub divergences: u64,
    pub first: Option<Divergence>,
    /// (function, reason, refused) to (count, first call).
    left_out: BTreeMap<(String, String, bool), (u64, u64)>,
}

impl Tally {
    /// What a call brings to the host cannot be compared, or not all of it.
    pub fn not_compared(&mut self, call: u64) {
        self.unchecked_copies += 1;
        self.unchecked.insert(call);
    }

    pub fn leave_out(&mut self, function: &str, reason: &str, refused: bool, call: u64) {
        let key = (function.to_owned(), reason.to_owned(), refused);
        let (count, first) = self.left_out.entry(key).or_insert((0, call));
        *count += 1;
        *first = call.min(*first);
    }

    pub fn diverged(&mut self, divergence: Divergence) {
        self.divergences += 1;
        if self.first.as_ref().is_none_or(|first| divergence.call < first.call) {
            self.first = Some(divergence);
        }
    }

    pub fn add(&mut self, other: Tally) {
        self.executed += other.executed;
        self.emulated += other.emulated;
        self.checked.results += other.checked.results;
        self.checked.outputs += other.checked.outputs;
        self.checked.copies += other.checked.copies;
        self.checked.bytes += other.checked.bytes;
        self.checked.within_tolerance += other.checked.within_tolerance;
        self.unchecked_copies += other.unchecked_copies;
        self.unchecked.extend(other.unchecked);
        self.compared.extend(other.compared);
        self.unchanged.extend(other.unchanged);
        self.unresolved_pointers += other.unresolved_pointers;
        self.words.add(other.words);
        self.unknown_handles += other.unknown_handles;
        self.other_numbers += other.other_numbers;
        self.written += other.written;
        self.others_at_the_end += other.others_at_the_end;
        self.written_in_use += other.written_in_use;
        self.lost_writes += other.lost_writes;
        self.missed_callbacks += other.missed_callbacks;
        self.divergences += other.divergences;
        let earlier = |one: &Divergence| self.first.as_ref().is_none_or(|first| one.call < first.call);
        if other.first.as_ref().is_some_and(earlier) {
            self.first = other.first;
        }
        for (key, (count, call)) in other.left_out {
            let (all, first) = self.left_out.entry(key).or_insert((0, call));
            *all += count;
            *first = call.min(*first);
        }
    }

    pub fn left_out(&self) -> Vec<LeftOut> {
        let entries = self.left_out.iter().map(|((function, reason, refused), (count, first))| LeftOut {
            function: function.clone(),
            reason: reason.clone(),
            refused: *refused,
            count: *count,
            first: *first,
        });
        entries.collect()
    }
}
