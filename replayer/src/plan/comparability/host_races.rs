//! CPU writes while work in flight may have used the same memory, or memory that migrates together with it:
//! their order is not known.
//!
//! A kernel whose input the CPU wrote meanwhile may have waited for that write. Such a program replays if the
//! write is found before the call that waits for the kernel, and is named all the same. (A write during a
//! call that waits for the kernel is a reason of its own.) If the memory finally held other bytes than the
//! CPU's, the launch has written there too. Managed memory migrates in blocks, and on pages that the driver
//! copies with the CPU nobody can tell who wrote the rest (`pinned_subranges.rs`).

use crate::plan::comparability::callback_writes::Runs;
use crate::plan::comparability::mapped_memory::MappedMemory;
use crate::plan::comparability::pinned_subranges::PinnedSubranges;
use crate::plan::comparability::subrange_starts::SubrangeStarts;
use crate::plan::verdict::{Reason, Reasons};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashSet};
use std::iter::Peekable;
use trace::api::roles::Class;
use trace::base::hash::Hash;
use trace::model::objects::Objects;
use trace::read::call::{Content, Image};
use trace::read::host_writes::{FoundWrite, Written};
use trace::{Call, Trace};

const WHAT: &str = "the CPU wrote memory of a launch in flight: the kernel may have waited for that write";

const MEANWHILE: &str =
    "during this wait the CPU wrote memory of a launch in flight: the kernel may have waited for that write";

const BOTH: &str = "the CPU and a launch in flight wrote the same memory, in unknown order";

const MANAGED: &str =
    "the CPU and work in flight used managed memory that migrates together: CPU writes may have migrated unseen";

const PARTS: &str =
    "the CPU wrote pinned memory of kernels in flight: results of those kernels may be recorded as CPU writes";

/// The bytes of a file may stand for memory more than once, but not for one memory so often.
const REPEATS: u64 = 64;

#[derive(Default)]
pub(crate) struct HostRaces {
    pub notes: Vec<Reason>,
    pub reasons: Vec<Reason>,
    /// What both may have written: see [`Plan`](crate::plan::Plan).
    pub shared: HashSet<(u64, u64, u64)>,
}

/// Moves along a trace in the order of time: submissions when they begin, what was found when it was, waits
/// when they end.
struct Walk<'t> {
    trace: &'t Trace,
    runs: Runs,
    found: Peekable<std::vec::IntoIter<FoundWrite<'t>>>,
    memory: MappedMemory,
    parts: PinnedSubranges,
    borders: SubrangeStarts,
    /// Calls that wait or show results, by their ends.
    ending: BinaryHeap<Reverse<(u64, u64)>>,
    /// Calls that put callbacks on streams, by when these began to run.
    called_back: Peekable<std::vec::IntoIter<(u64, u64)>>,
    /// What the CPU wrote while launches were under way that had been given the memory.
    beside: Vec<ConcurrentWork<'t>>,
    /// The calls before which that was found.
    named: BTreeSet<u64>,
    reasons: Reasons,
    shared: HashSet<(u64, u64, u64)>,
    /// The last call that came upon managed memory which work under way used.
    beside_managed: Option<u64>,
}

struct ConcurrentWork<'t> {
    image: Image<'t>,
    launches: Vec<u64>,
    in_callback: bool,
}

/// `is_left_out`: of launches that a replay does not make.
pub(crate) fn host_races(trace: &Trace, is_left_out: impl Fn(u64) -> bool) -> HostRaces {
    if !trace.has_written() {
        return HostRaces::default();
    }
    let mut walk = Walk::new(trace);
    let mut objects = Objects::default();
    for call in trace.calls().filter(|call| !call.inner) {
        walk.advance(call.begin, &objects);
        objects.follow(&call);
        let waits = waits(&call);
        if !waits && !is_left_out(call.number) {
            walk.observe(&call, &objects);
        }
        let is_looked_at = || call.results().next().is_some() || writes_during(&call).next().is_some();
        if let Some(end) = call.end.filter(|_| waits || is_looked_at()) {
            walk.ending.push(Reverse((end, call.number)));
        }
    }
    walk.advance(u64::MAX, &objects);
    let found = walk.borders.into_calls();
    found.in_part.into_iter().for_each(|call| walk.reasons.about_call(PARTS, call));
    for call in found.meanwhile.into_iter().filter_map(|call| trace.call(call)) {
        walk.reasons.about_call(format!("{}: {MEANWHILE}", call.name()), call.number);
    }
    let mut notes = Reasons::default();
    walk.named.into_iter().for_each(|call| notes.about_call(WHAT, call));
    HostRaces { notes: notes.into_list(), reasons: walk.reasons.into_list(), shared: walk.shared }
}

pub(crate) fn waits(call: &Call) -> bool {
    call.function().is_some_and(|function| matches!(function.class, Class::synchronize | Class::poll | Class::copy))
}

impl<'t> Walk<'t> {
    fn new(trace: &'t Trace) -> Walk<'t> {
        Walk {
            trace,
            runs: Runs::from_trace(trace),
            found: trace.found_writes().into_iter().peekable(),
            memory: MappedMemory::default(),
            parts: PinnedSubranges::default(),
            borders: SubrangeStarts::default(),
            ending: BinaryHeap::new(),
            called_back: begun(trace).into_iter().peekable(),
            beside: Vec::new(),
            named: BTreeSet::new(),
            reasons: Reasons::default(),
            shared: HashSet::new(),
            beside_managed: None,
        }
    }

    fn observe(&mut self, call: &Call, objects: &Objects) {
        if let Some(function) = call.function() {
            self.memory.observe(call, function, objects);
            self.borders.observe(call, function, &self.memory);
            if let Some(why) = self.parts.observe(call, function, &self.memory) {
                self.reasons.about_call(why, call.number);
            }
        }
    }

    /// What was found by then, and what ended before.
    fn advance(&mut self, time: u64, objects: &Objects) {
        loop {
            // A run comes before what is found at the same time.
            let run = self.called_back.peek().copied().filter(|(begin, _)| *begin <= time);
            let found = self.found.peek().map(|found| found.time).filter(|found| *found <= time);
            let ending = self.ending.peek().map(|Reverse((end, call))| (*end, *call)).filter(|(end, _)| *end < time);
            let earliest = [found, ending.map(|(end, _)| end)].into_iter().flatten().min();
            if let Some((_, call)) = run.filter(|(begin, _)| earliest.is_none_or(|other| *begin <= other)) {
                self.called_back.next();
                self.memory.work.called_back(call, false);
                self.settle();
                continue;
            }
            match (found, ending) {
                (found, Some((end, call))) if found.is_none_or(|found| end < found) => {
                    self.ending.pop();
                    self.ends(call, objects);
                }
                (Some(_), _) => self.finds(),
                (None, _) => return,
            }
        }
    }

    fn finds(&mut self) {
        let Some(found) = self.found.next() else { return };
        // What began later was given what the CPU had written.
        let later = self.trace.call_from(found.time);
        if found.written.may_be_results() {
            return;
        }
        if found.written.is_seen() {
            let mut beside =
                found.written.images().flat_map(|image| self.memory.launches_using_managed(&image.memory()));
            // Before a wait it may be what the work has made of it by then. Once for a call that found many
            // pieces.
            let waits = self.trace.call(found.call).and_then(|call| call.function());
            let waits = waits.is_some_and(|function| matches!(function.class, Class::synchronize | Class::copy));
            if !waits && self.beside_managed != Some(found.call) && beside.any(|launch| launch < later) {
                self.reasons.about_call(MANAGED, found.call);
                self.beside_managed = Some(found.call);
            }
            return;
        }
        let in_callback = self.runs.is_under_way(found.time);
        for image in found.written.images() {
            self.borders.record_write(found.call, &image.memory(), later, false, &self.memory);
            let mut launches = self.memory.launches_using_pinned(image.address);
            launches.retain(|launch| *launch < later);
            if !launches.is_empty() {
                self.named.insert(found.call);
                self.beside.push(ConcurrentWork { image, launches, in_callback });
            }
        }
    }

    fn ends(&mut self, call: u64, objects: &Objects) {
        let Some(call) = self.trace.call(call) else { return };
        // Beside launches of which no other wait had told by then.
        for image in writes_during(&call) {
            self.borders.record_write(call.number, &image.memory(), call.number, true, &self.memory);
        }
        let mut both = false;
        for (launch, image) in call.results().filter(|_| !self.beside.is_empty()) {
            // What a callback writes stands in the order of its stream.
            let own = self.beside.iter().filter(|beside| !beside.in_callback).map(|beside| &beside.image);
            let own: Vec<&Image> = own.filter(|own| meets(own, &image)).collect();
            if !own.is_empty() {
                both |= !holds(self.trace, &image, &own);
                self.shared.insert((call.number, launch.number, image.address));
            }
        }
        if both {
            self.reasons.about_call(BOTH, call.number);
        }
        if waits(&call) {
            self.observe(&call, objects);
            self.settle();
        }
    }

    /// What was written beside launches that have finished all is settled.
    fn settle(&mut self) {
        let work = &self.memory.work;
        self.beside.retain_mut(|beside| {
            beside.launches.retain(|launch| work.is_under_way(*launch));
            !beside.launches.is_empty()
        });
    }
}

/// What others wrote while this call waited.
fn writes_during<'t>(call: &Call<'t>) -> impl Iterator<Item = Image<'t>> + use<'t> {
    let is_others = |written: &Written| written.is_during_wait() && !written.may_be_results();
    call.written().filter(is_others).flat_map(|written| written.images())
}

/// When callbacks on streams first ran, in order, and the calls that put them there.
pub(crate) fn begun(trace: &Trace) -> Vec<(u64, u64)> {
    let begin = |call: &Call| Some((call.callback_runs().get(&0)?.first()?.about.begin, call.number));
    let mut begun: Vec<(u64, u64)> = trace.callers_back().iter().filter_map(begin).collect();
    begun.sort_unstable();
    begun
}

fn meets(one: &Image, other: &Image) -> bool {
    one.address < other.address.saturating_add(other.len) && other.address < one.address.saturating_add(one.len)
}

/// Whether the memory held the CPU's own bytes and nothing else, as far as can be told.
fn holds(trace: &Trace, result: &Image, own: &[&Image]) -> bool {
    let (Content::Hash { hash, .. } | Content::Blob(hash)) = result.content else { return false };
    let Some(end) = result.address.checked_add(result.len) else { return false };
    // Of every piece as many bytes as it says; a forged one may have others.
    let pieces = own.iter().map(|image| trace.bytes(image).filter(|bytes| bytes.len() as u64 == image.len));
    let Some(pieces) = pieces.collect::<Option<Vec<&[u8]>>>() else { return false };
    let covered = own.iter().map(|image| image.memory());
    let covered = crate::base::ranges::Ranges::union(covered, 1);
    if !covered.covers(&(result.address..end)) || result.len / REPEATS > trace.length() {
        return false;
    }
    let mut bytes = vec![0; result.len as usize];
    for (image, written) in own.iter().zip(pieces) {
        let from = image.address.max(result.address);
        let to = image.address.saturating_add(image.len).min(end);
        let part = &written[(from - image.address) as usize..(to - image.address) as usize];
        bytes[(from - result.address) as usize..][..part.len()].copy_from_slice(part);
    }
    Hash::compute(&bytes) == hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;
    use trace::read::call::When;

    #[test]
    fn what_pieces_say_of_themselves_is_not_believed() {
        let trace = Sample::new().trace();
        let image = |address, len, content| Image { address, len, when: When::Entry, rows: false, option: 0, content };
        let result =
            |address, len, bytes: &[u8]| image(address, len, Content::Hash { hash: Hash::compute(bytes), late: false });
        let held = |result: &Image, own: &[Image]| holds(&trace, result, &own.iter().collect::<Vec<_>>());
        let own = [image(100, 4, Content::Bytes(&[1, 2, 3, 4])), image(103, 3, Content::Bytes(&[5, 6, 7]))];
        assert!(held(&result(101, 4, &[2, 3, 5, 6]), &own));
        assert!(!held(&result(101, 4, &[2, 3, 4, 6]), &own) && !held(&result(101, 9, &[2, 3, 5, 6]), &own));
        assert!(!held(&result(150, 4, &[0; 4]), &[image(100, 100, Content::Bytes(&[0; 4]))]));
        assert!(!held(&result(u64::MAX - 1, 4, &[0; 4]), &[image(u64::MAX - 4, 4, Content::Bytes(&[0; 4]))]));
        let lost: Vec<Image> = (0..1 << 12).map(|n| image(n << 32, 1 << 32, Content::Lost)).collect();
        assert!(!held(&result(0, 1 << 44, &[]), &lost));
    }
}
