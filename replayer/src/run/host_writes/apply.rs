//! The recorded CPU writes, repeated before the call that follows them.
//!
//! Host memory is written at its place in the replay. Managed memory is device memory here. The CPU's bytes
//! are first compared with it, because the CPU may only have read the device's writes; then they agree, and
//! something was checked.

use crate::base::addresses::extent;
use crate::memory::live_address::LiveAddress;
use crate::run::hazards::{self, FLAG, FlagQueues};
use crate::run::partial_words;
use crate::run::state::Run;
use crate::tally::Tally;
use std::ops::Range;
use std::sync::atomic::Ordering::*;
use trace::Call;
use trace::read::call::Image;
use trace::read::host_writes::{FoundWrite, Written};

/// Lets kernels go that wait for the CPU, while these calls wait for them. Memory of the host alone: the
/// driver is busy.
pub(crate) fn let_go(run: &Run, calls: &[u64]) {
    let writes = &run.host_writes;
    let _turn = writes.turn.lock();
    let mut tally = writes.early.lock();
    let is_due = |found: &&FoundWrite| found.written.is_during_wait() && calls.contains(&found.call);
    let due = writes.found[writes.position()..].iter().filter(is_due);
    due.flat_map(|found| found.written.images()).for_each(|image| on_host_only(run, &image, &mut tally));
}

/// Before the call is made, whatever becomes of it.
pub(crate) fn before_call(run: &Run, call: &Call, tally: &mut Tally) {
    let writes = &run.host_writes;
    let is_due = |at: usize| writes.found.get(at).is_some_and(|found| found.time <= call.begin);
    if !is_due(writes.frontier.load(Acquire)) {
        return;
    }
    let _turn = writes.turn.lock();
    let mut at = writes.frontier.load(Acquire);
    while is_due(at) {
        let FoundWrite { written, call: finder, .. } = &writes.found[at];
        // A program that lets a kernel go by a flag has written all else before.
        let (flags, others): (Vec<Image>, Vec<Image>) = written.images().partition(|image| image.len <= FLAG);
        let places = flags.iter().filter(|_| !others.is_empty()).filter_map(|flag| {
            let live = run.host(&flag.memory())?;
            Some(live..live + flag.len)
        });
        let held = FlagQueues::new(places.flat_map(|live| run.readbacks.launches_at(&live)).collect());
        for image in others.iter().chain(&flags) {
            write(run, call, *finder, written, image, &held, tally);
        }
        at += 1;
    }
    writes.frontier.store(at, Release);
}

/// After all work: what the CPU had of managed memory when the process ended. What differs it may have
/// written itself.
pub(crate) fn at_the_end(run: &Run, tally: &mut Tally) {
    if run.end < run.trace.len() as u64 || run.is_stopped() || !run.verify {
        return;
    }
    let seen = run.trace.found_at_the_end().filter(Written::is_seen);
    for image in seen.flat_map(|written| written.images()) {
        let Some(bytes) = run.trace.bytes(&image) else { continue };
        if read(run, &extent(image.address, bytes.len())).is_some_and(|live| live == bytes) {
            tally.checked.bytes += bytes.len() as u64;
            tally.compared.insert(run.trace.len() as u64);
        } else {
            tally.others_at_the_end += bytes.len() as u64;
        }
    }
}

/// What a callback did to host memory. To be called from the driver's thread: asks the driver nothing.
pub(crate) fn on_host_only(run: &Run, image: &Image, tally: &mut Tally) {
    let Some(bytes) = run.trace.bytes(image) else { return };
    let (start, bytes, words) = partial_words::translated(run, image.address, bytes, |range| read_host(run, range));
    if let Some(live) = run.host(&extent(start, bytes.len())) {
        tally.words.add(words);
        if run.placement.shared_host.holds(&(live..live + bytes.len() as u64)) {
            tally.written += run.placement.shared_host.bring(live, &bytes, false);
            return;
        }
        // SAFETY: as in `write`. The device has come to where it waits for this.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), live as *mut u8, bytes.len()) };
        tally.written += bytes.len() as u64;
    }
}

/// The rest of what a callback did, once it has run.
pub(crate) fn on_device_only(run: &Run, call: &Call, written: &Written, image: &Image, tally: &mut Tally) {
    let len = run.trace.bytes(image).map_or(0, <[u8]>::len);
    if run.host(&extent(image.address, len)).is_none() {
        write(run, call, call.number, written, image, &FlagQueues::nowhere(), tally);
    }
}

/// `call` is about to be made; `finder` is the one before which it was found. `held`: see
/// [`hazards::wait_for_readers`].
fn write(run: &Run, call: &Call, finder: u64, written: &Written, image: &Image, held: &FlagQueues, tally: &mut Tally) {
    let Some(bytes) = run.trace.bytes(image) else {
        tally.lost_writes += 1;
        return;
    };
    let (start, bytes, words) = partial_words::translated(run, image.address, bytes, |range| read(run, range));
    let bytes = &*bytes;
    tally.words.add(words);
    let range = extent(start, bytes.len());
    if let Some(live) = run.host(&range) {
        let live = live..live + bytes.len() as u64;
        if run.placement.shared_host.holds(&live) {
            tally.written += run.placement.shared_host.bring(live.start, bytes, true);
            return;
        }
        // SAFETY: the placement (or the graph whose source it is) holds this memory, readable and writable,
        // until the end.
        let agrees = || unsafe { std::slice::from_raw_parts(live.start as *const u8, bytes.len()) } == bytes;
        // What a copy is still bringing may change what agrees now.
        if !run.readbacks.is_landing_in(&live) && agrees() {
            return;
        }
        if run.callbacks.have_written(written.about.begin, &range) {
            return;
        }
        hazards::wait_for_readers(run, call.thread, &live, written.about.begin, held, tally);
        if agrees() {
            return;
        }
        run.callbacks.write(written.about.begin, range.clone(), |part| {
            let from = &bytes[(part.start - range.start) as usize..(part.end - range.start) as usize];
            // SAFETY: as above. What the device still does with it, it did in the recorded program.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    from.as_ptr(),
                    (live.start + part.start - range.start) as *mut u8,
                    from.len(),
                )
            };
        });
        tally.written += bytes.len() as u64;
    } else if let Some(live) = run.placement.bound(&range).map(LiveAddress::word) {
        match run.side_stream.have(run, call.thread, live, bytes, &mut tally.written_in_use) {
            Some(true) if written.is_seen() => {
                tally.checked.bytes += if run.verify { bytes.len() as u64 } else { 0 };
                tally.compared.insert(finder);
            }
            Some(_) => tally.written += bytes.len() as u64,
            None => tally.lost_writes += 1,
        }
    } else {
        tally.lost_writes += 1;
    }
}

/// What the replay has at recorded addresses.
fn read(run: &Run, recorded: &Range<u64>) -> Option<Vec<u8>> {
    if let Some(bytes) = read_host(run, recorded) {
        return Some(bytes);
    }
    let len = (recorded.end - recorded.start) as usize;
    let live = run.placement.bound(recorded)?.word();
    let mut found = vec![0u8; len];
    run.side_stream.fetch(run, live, &mut found).map(|()| found)
}

fn read_host(run: &Run, recorded: &Range<u64>) -> Option<Vec<u8>> {
    let len = (recorded.end - recorded.start) as usize;
    // SAFETY: the placement (or the graph whose source it is) holds this memory, readable, until the end.
    run.host(recorded).map(|live| unsafe { std::slice::from_raw_parts(live as *const u8, len) }.to_vec())
}
