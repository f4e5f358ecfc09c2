//! Kernels that may have waited for the CPU: it wrote memory that a launch had been given and that nothing told to have finished.
//!
//! Such a program replays if the write is found before the call that waits for the kernel. It is named all the same: a kernel that
//! spins on a flag while no thread makes a call waits for ever. If the memory held something else than the CPU's bytes in
//! the end, the launch has written there, too, and nobody knows in which order.

use crate::plan::meanwhile::Runs;
use crate::plan::outstanding::Outstanding;
use crate::plan::verdict::{Reason, Reasons};
use std::collections::HashSet;
use trace::call::{Content, Image};
use trace::hash::Hash;
use trace::objects::Objects;
use trace::{Trace, decode};

const WHAT: &str = "the CPU wrote memory that a launch under way had been given: a kernel may have waited for it";

const BOTH: &str = "the CPU and a launch under way wrote the same memory, in an order that nobody knows";

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
    for call in trace.calls().filter(|call| !call.inner) {
        let mut is_named = false;
        for written in call.written().filter(|written| !written.is_seen()) {
            for image in written.images() {
                let launches = walk.given_to(image.address);
                is_named |= !launches.is_empty();
                // What a callback writes stands in the order of its stream.
                if !launches.is_empty() && !runs.is_under_way(written.about.begin) {
                    beside.push(Beside { image, launches });
                }
            }
        }
        if is_named {
            notes.about_call(WHAT, call.number);
        }
        let mut both = false;
        for (launch, image) in call.results().filter(|_| !beside.is_empty()) {
            let own: Vec<&Image> = beside.iter().map(|beside| &beside.image).filter(|own| meets(own, &image)).collect();
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
            beside.retain(|beside| beside.launches.iter().any(|launch| walk.is_under_way(*launch)));
        }
    }
    Spins { notes: notes.into_list(), reasons: reasons.into_list(), shared }
}

fn meets(one: &Image, other: &Image) -> bool {
    one.address < other.address.saturating_add(other.len) && other.address < one.address.saturating_add(one.len)
}

/// Whether the memory held the CPU's own bytes and nothing else, as far as can be told.
fn holds(trace: &Trace, result: &Image, own: &[&Image]) -> bool {
    let (Content::Hash { hash, .. } | Content::Blob(hash)) = result.content else { return false };
    let covered = own.iter().map(|image| image.address..image.address.saturating_add(image.len));
    let covered = crate::memory::ranges::Ranges::union(covered, 1);
    if !covered.iter().any(|range| range.start <= result.address && result.address + result.len <= range.end) {
        return false;
    }
    let mut bytes = vec![0; result.len as usize];
    for image in own {
        let Some(written) = trace.bytes(image) else { return false };
        let from = image.address.max(result.address);
        let to = (image.address + written.len() as u64).min(result.address + result.len);
        let part = &written[(from - image.address) as usize..(to - image.address) as usize];
        bytes[(from - result.address) as usize..][..part.len()].copy_from_slice(part);
    }
    Hash::of(&bytes) == hash
}
