//! Kernels that may have waited for the CPU: it wrote memory that a launch had been given and that nothing told to have finished.
//!
//! Such a program replays if the write is found before the call that waits for the kernel. It is named all the same: a kernel that
//! spins on a flag while no thread makes a call waits for ever. If the memory held something else than the CPU's bytes in
//! the end, the launch has written there, too, and nobody knows in which order.

use crate::plan::meanwhile::Runs;
use crate::plan::outstanding::Outstanding;
use crate::plan::verdict::{Reason, Reasons};
use std::collections::{BTreeSet, HashSet};
use trace::call::{Content, Image};
use trace::hash::Hash;
use trace::objects::Objects;
use trace::{Trace, decode};

const WHAT: &str = "the CPU wrote memory that a launch under way had been given: a kernel may have waited for it";

const BOTH: &str = "the CPU and a launch under way wrote the same memory, in an order that nobody knows";

/// The bytes of a file may stand for memory more than once, but not for one memory so often.
const REPEATS: u64 = 64;

#[derive(Default)]
pub struct Spins {
    pub notes: Vec<Reason>,
    pub reasons: Vec<Reason>,
    /// What both may have written: see [`Plan`](crate::plan::Plan).
    pub shared: HashSet<(u64, u64, u64)>,
}

/// What the CPU wrote while launches were under way that had been given the memory.
struct Beside<'t> {
    image: Image<'t>,
    launches: Vec<u64>,
    /// The call that found it, and when. Another thread's wait may have begun after that call, and ended before: then it was no
    /// longer under way what that wait was for.
    call: u64,
    found: u64,
}

pub fn spins(trace: &Trace) -> Spins {
    if !trace.has_written() {
        return Spins::default();
    }
    let runs = Runs::of(trace);
    let (mut notes, mut reasons, mut shared) = (Reasons::default(), Reasons::default(), HashSet::new());
    let mut walk = Outstanding::default();
    let mut objects = Objects::default();
    let mut beside: Vec<Beside> = Vec::new();
    let mut named = BTreeSet::new();
    for call in trace.calls().filter(|call| !call.inner) {
        for written in call.written().filter(|written| !written.is_seen()) {
            for image in written.images() {
                let (launches, found) = (walk.given_to(image.address), written.about.begin);
                if !launches.is_empty() {
                    beside.push(Beside { image, launches, call: call.number, found });
                }
            }
        }
        let mut both = false;
        for (launch, image) in call.results().filter(|_| !beside.is_empty()) {
            // What a callback writes stands in the order of its stream.
            let is_unordered =
                |own: &&Beside| call.end.is_none_or(|end| own.found < end) && !runs.is_under_way(own.found);
            let own = beside.iter().filter(is_unordered).map(|beside| &beside.image);
            let own: Vec<&Image> = own.filter(|own| meets(own, &image)).collect();
            if !own.is_empty() {
                both |= !holds(trace, &image, &own);
                shared.insert((call.number, launch.number, image.address));
            }
        }
        if both {
            reasons.about_call(BOTH, call.number);
        }
        match objects.concerned(&call).then(|| decode::decode(&call)).flatten() {
            Some(decoded) => objects.advance(&call, &decoded),
            None => objects.until(&call),
        }
        let waited = call.function().and_then(|function| walk.see(&call, function, &objects));
        if waited.is_some_and(|waited| waited.covered > 0) {
            beside.retain_mut(|beside| {
                let launches = std::mem::take(&mut beside.launches);
                beside.launches = launches.into_iter().filter(|launch| walk.is_under_way(*launch)).collect();
                if beside.launches.is_empty() && call.end.is_none_or(|end| beside.found < end) {
                    named.insert(beside.call);
                }
                !beside.launches.is_empty()
            });
        }
    }
    named.extend(beside.iter().map(|beside| beside.call));
    named.into_iter().for_each(|call| notes.about_call(WHAT, call));
    Spins { notes: notes.into_list(), reasons: reasons.into_list(), shared }
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
    let covered = own.iter().map(|image| image.address..image.address.saturating_add(image.len));
    let covered = crate::memory::ranges::Ranges::union(covered, 1);
    if !covered.covers(&(result.address..end)) || result.len / REPEATS > trace.bytes_on_disk() {
        return false;
    }
    let mut bytes = vec![0; result.len as usize];
    for (image, written) in own.iter().zip(pieces) {
        let from = image.address.max(result.address);
        let to = image.address.saturating_add(image.len).min(end);
        let part = &written[(from - image.address) as usize..(to - image.address) as usize];
        bytes[(from - result.address) as usize..][..part.len()].copy_from_slice(part);
    }
    Hash::of(&bytes) == hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use trace::call::When;

    #[test]
    fn what_pieces_say_of_themselves_is_not_believed() {
        let trace = Sample::new().trace();
        let image = |address, len, content| Image { address, len, when: When::Entry, rows: false, content };
        let result =
            |address, len, bytes: &[u8]| image(address, len, Content::Hash { hash: Hash::of(bytes), late: false });
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
