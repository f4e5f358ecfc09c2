//! Snapshots of imported memory, for `record --shared-memory`: taken right before work that may use it and,
//! if the work may write there, right after it, on the same stream.

use crate::capture::step::{CallEntry, CallReturn};
use crate::driver::queries;
use crate::driver::queue::PER_THREAD;
use crate::os::guard::guarded;
use crate::records::lane::Lane;
use crate::submission::copy_endpoints::describes_copies;
use crate::submission::shape::Launch;
use crate::submission::target_stream::makes_node;
use crate::submission::{launch_arguments, target_stream};
use std::ops::Range;
use trace::Function;
use trace::api::roles::{Class, Field, Role};
use trace::file::record::imported_memory::ImportedMemory;

/// Bytes that are copied as one: more takes turns in the memory that there is for it.
const PART: u64 = 64 << 20;

/// Behind the call that has opened memory of another process at this address.
#[cold]
pub(crate) fn opened(lane: &Lane, address: u64) {
    let recorder = lane.recorder();
    let Some(deliveries) = &recorder.deliveries else { return };
    // The call's entry has been written: it is the latest.
    let call = (lane.index(), lane.sequence().wrapping_sub(1));
    let told = match queries::memory_around(address) {
        Some(range) => {
            recorder.imported.opened(range.clone());
            ImportedMemory { call, address: range.start, len: range.end - range.start, ..ImportedMemory::default() }
        }
        None => ImportedMemory {
            call,
            address,
            lost: "the driver does not report its size".into(),
            ..ImportedMemory::default()
        },
    };
    deliveries.tell(&recorder.around, told);
    deliveries.prepare_once();
}

#[inline(always)]
pub(crate) fn before_entry(call: CallEntry) {
    let CallEntry { lane, site, words } = call;
    if site.shape.submits && lane.recorder().imported.any() {
        snapshot_before(lane, site.function, site.shape.launch, words);
    }
}

/// Before a call gives a device work.
#[cold]
#[inline(never)]
fn snapshot_before(lane: &Lane, function: &'static Function, launch: Option<Launch>, words: &[u64]) {
    guarded(|| {
        let used = used(lane, function, launch, words, true);
        keep(
            lane,
            function,
            words,
            used,
            ImportedMemory { call: (lane.index(), lane.sequence()), ..ImportedMemory::default() },
        );
    });
}

pub(crate) fn behind_work(call: CallReturn) {
    let CallReturn { lane, site, words, sequence, .. } = call;
    if lane.recorder().imported.any() {
        guarded(|| snapshot_after(lane, site.function, site.shape.launch, words, sequence));
    }
}

/// Behind a call that has given a device work. What others have written by the next use is told from what
/// this one has. Beside the memory that a kernel is given others may be writing while it runs: of that nobody
/// can say who wrote what.
#[cold]
fn snapshot_after(lane: &Lane, function: &'static Function, launch: Option<Launch>, words: &[u64], call: u32) {
    let imported = &lane.recorder().imported;
    let writes =
        |param: &&Field| matches!(param.role, Role::Writes(_)) && imported.holds(words[param.offset as usize / 8]);
    let may_write = function.class == Class::launch
        || describes_copies(function)
        || function.params.iter().any(|param| writes(&param));
    if may_write {
        let used = used(lane, function, launch, words, launch.is_none());
        let about = ImportedMemory { call: (lane.index(), call), is_behind: true, ..ImportedMemory::default() };
        keep(lane, function, words, used.clone(), about);
        if function.class == Class::copy {
            // When it returns its work is done, and others may be told to write there.
            lane.recorder()
                .deliveries
                .iter()
                .for_each(|deliveries| used.iter().for_each(|part| deliveries.settle(part)));
        }
    }
}

/// Before memory is given back that may be copied just now.
#[cold]
pub(crate) fn ends(lane: &Lane, memory: Option<Range<u64>>) {
    lane.recorder().deliveries.iter().zip(&memory).for_each(|(deliveries, memory)| deliveries.settle(memory));
}

/// Behind a call that has got a handle of such memory, or mapped it: what is pinned is pinned before it is
/// needed.
#[cold]
pub(crate) fn imported(lane: &Lane) {
    if let Some(deliveries) = lane.recorder().deliveries.as_ref().filter(|_| queries::current_context() != 0) {
        deliveries.prepare_once();
    }
}

fn keep(lane: &Lane, function: &'static Function, words: &[u64], used: Vec<Range<u64>>, about: ImportedMemory) {
    let Some(deliveries) = &lane.recorder().deliveries else { return };
    // What is captured uses it when the graph runs.
    if used.is_empty() || makes_node(function, words) {
        return;
    }
    let stream = match target_stream::stream(function, words).unwrap_or(0) {
        0 if function.twin_of.is_some() => PER_THREAD,
        stream => stream,
    };
    deliveries.prepare_once();
    let around = &lane.recorder().around;
    for part in used.iter().flat_map(parts) {
        let held = ImportedMemory { address: part.start, len: part.end - part.start, ..about.clone() };
        if let Err(lost) = deliveries.take(around, held.clone(), stream) {
            deliveries.tell(around, ImportedMemory { lost, ..held });
        }
    }
}

/// The imported memory that the work may use: what it names, with what is mapped beside that or without, and of a
/// graph all.
fn used(
    lane: &Lane,
    function: &'static Function,
    launch: Option<Launch>,
    words: &[u64],
    with_beside: bool,
) -> Vec<Range<u64>> {
    let imported = &lane.recorder().imported;
    let Some(launch) = launch else {
        return match function.class {
            Class::launch => imported.all(),
            _ => imported.ranges_of(launch_arguments::of_work(function, words).into_iter(), with_beside),
        };
    };
    if lane.layout_before_launch(words[launch.function as usize]).is_some_and(|layout| layout.is_nccls) {
        // These wait for each other, and what they bring is another matter.
        return Vec::new();
    }
    match launch_arguments::of_launch(lane, launch, words, |_| true) {
        Some(words) => imported.ranges_of(words.into_iter(), with_beside),
        None => imported.all(),
    }
}

fn parts(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let end = range.end;
    (range.start..end).step_by(PART as usize).map(move |start| start..end.min(start + PART))
}
