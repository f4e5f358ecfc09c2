//! Counts of what was compared, what differs, and what was not done.

use crate::base::extent::Extent;
use crate::memory::words::Words;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;
use trace::Call;

/// Counts of comparisons.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckCounts {
    /// Result codes.
    pub results: u64,
    /// Values that calls handed out.
    pub outputs: u64,
    /// Copies from the device to the host, and their bytes.
    pub copies: u64,
    /// Bytes that were copied from the device to the host and compared.
    pub bytes: u64,
    /// Copies among those that agree within the tolerance, and not byte for byte.
    pub within_tolerance: u64,
}

/// A place where the replay and the recording differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Divergence {
    /// Number of the call.
    pub call: u64,
    /// Name of the driver function.
    pub function: String,
    /// Number of the recorded thread.
    pub thread: u32,
    /// The result, a parameter, or the bytes of a copy.
    pub what: String,
    /// Bytes from the start of what differs; none where only a hash was recorded.
    pub offset: Option<u64>,
    /// The recorded value.
    pub expected: String,
    /// The value of the replay.
    pub found: String,
    /// Of the bytes of a copy.
    pub extent: Option<Extent>,
    /// The last launches that were given this memory, latest first.
    pub launches: Vec<LaunchBefore>,
}

/// A launch before a call that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchBefore {
    /// Number of the call.
    pub call: u64,
    /// Name of the kernel, or the function if it names none.
    pub kernel: String,
}

impl Divergence {
    /// `what`: see there.
    pub fn new(call: &Call, what: &str, expected: String, found: String) -> Divergence {
        let (function, what) = (call.name().to_owned(), what.to_owned());
        let (call, thread) = (call.number, call.thread);
        Divergence { call, function, thread, what, offset: None, expected, found, extent: None, launches: Vec::new() }
    }
}

/// Calls of one function that are left out for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Name of the driver function.
    pub function: String,
    /// The reason as a phrase.
    pub reason: String,
    /// It mattered, and could not be done.
    pub refused: bool,
    /// Count of these calls.
    pub count: u64,
    /// Number of the first of them.
    pub first: u64,
}

/// The counts and findings of one worker, or of all.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub executed: u64,
    /// Memory calls whose effect was reached in another way.
    pub emulated: u64,
    /// Launches of NCCL's in whose place was written what they had delivered, and how many bytes.
    pub delivered: u64,
    pub delivered_bytes: u64,
    /// Calls before which was written what memory of other processes had held, and how many bytes.
    pub held: u64,
    pub held_bytes: u64,
    pub checked: CheckCounts,
    /// Copies to the host whose bytes could not be compared.
    pub unchecked_copies: u64,
    /// The calls that brought some of them.
    pub unchecked: BTreeSet<u64>,
    /// Of those, calls whose bytes differ, as they may, for this one was refused.
    pub dependents: BTreeMap<u64, u64>,
    /// The calls whose bytes were compared.
    pub compared: HashSet<u64>,
    /// The calls behind which host memory that kernels had been given was found as it had been before.
    pub unchanged: HashSet<u64>,
    /// Values in kernel arguments that look like addresses and lie in no known memory; passed unchanged.
    pub unresolved_pointers: u64,
    /// Addresses of memory that is elsewhere, in payloads, arguments and results.
    pub words: Words,
    /// Calls that failed when recorded and name an object that is gone, or that no call of the trace made:
    /// left out.
    pub unknown_handles: u64,
    /// Texture and surface objects whose numbers are others here: not found where a program keeps them in
    /// memory.
    pub other_numbers: u64,
    /// Bytes of memory that the recorded CPU had written without a call.
    pub written: u64,
    /// Pieces of it that were written while the device may have been reading them.
    pub written_in_use: u64,
    /// How long launches were waited for that did not end, before host memory was written that they may have been
    /// reading.
    pub waited_for_launches: Duration,
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

    /// What a call brings differs, and may depend on what one has not written that was refused.
    pub fn add_dependent(&mut self, call: u64, refused: u64) {
        self.not_compared(call);
        self.dependents.insert(call, refused);
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
        self.delivered += other.delivered;
        self.delivered_bytes += other.delivered_bytes;
        self.held += other.held;
        self.held_bytes += other.held_bytes;
        self.checked.results += other.checked.results;
        self.checked.outputs += other.checked.outputs;
        self.checked.copies += other.checked.copies;
        self.checked.bytes += other.checked.bytes;
        self.checked.within_tolerance += other.checked.within_tolerance;
        self.unchecked_copies += other.unchecked_copies;
        self.unchecked.extend(other.unchecked);
        self.dependents.extend(other.dependents);
        self.compared.extend(other.compared);
        self.unchanged.extend(other.unchanged);
        self.unresolved_pointers += other.unresolved_pointers;
        self.words.add(other.words);
        self.unknown_handles += other.unknown_handles;
        self.other_numbers += other.other_numbers;
        self.written += other.written;
        self.others_at_the_end += other.others_at_the_end;
        self.written_in_use += other.written_in_use;
        self.waited_for_launches += other.waited_for_launches;
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

/// The first bytes, to be shown.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const SHOWN: usize = 16;
    let mut text: Vec<String> = bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    if bytes.len() > SHOWN {
        text.push("...".into());
    }
    text.join(" ")
}
