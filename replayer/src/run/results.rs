//! Results of launches in host memory, which the program reads without a copy: compared once it had waited
//! for them.

use crate::call::readback::{Readback, meet};
use crate::check::payload;
use crate::memory::words::Layout;
use crate::run::state::Run;
use crate::tally::Tally;
use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::ops::Range;
use trace::Call;
use trace::api::copies::Region;
use trace::base::hash::Hash;
use trace::read::call::Image;
use trace::read::host_writes::Written;

/// What agrees afterwards because nobody wrote there is no result.
pub(crate) fn before_launch(run: &Run, launch: &Call) {
    for image in launch.looked_at() {
        let Some(live) = run.host(&image.memory()) else { continue };
        // SAFETY: the placement holds this memory until the end.
        let bytes = unsafe { std::slice::from_raw_parts(live as *const u8, image.len as usize) };
        let key = (launch.number, image.address, image.len);
        run.before_launches.lock().entry(key).or_insert_with(|| (Hash::compute(bytes), 0)).1 += 1;
    }
}

/// After a call that waited, or that found work done.
pub(crate) fn after_wait(run: &Run, call: &Call, tally: &mut Tally) {
    for (launch, image) in call.results() {
        compare(run, call, &launch, &image, false, tally);
    }
}

/// When a callback begins, which ran on that thread at that time: what its stream has waited for is done, and
/// of that what the callback is about to overwrite can be looked at no more. Others may have found it done
/// before, and not have come to that here.
pub(crate) fn before_callback(run: &Run, (thread, ran): (u32, Range<u64>), memory: &[Range<u64>], tally: &mut Tally) {
    for (launch, image) in run.trace.results_of_callback(thread, ran.clone()) {
        compare(run, &launch, &launch, &image, false, tally);
    }
    for (launch, image) in found_before(run, ran.end, memory) {
        compare(run, &launch, &launch, &image, true, tally);
    }
}

/// Whether some launch has not made of this memory yet what had been found there by that time.
pub(crate) fn are_outstanding(run: &Run, time: u64, memory: &[Range<u64>]) -> bool {
    let is_shared =
        |launch: u64, address| run.plan.comparability.host_races.iter().any(|(_, l, a)| (*l, *a) == (launch, address));
    let differs = |launch: u64, image: &Image| {
        let Some(live) = run.host(&image.memory()) else { return false };
        let mut compared = Tally::default();
        payload::compare(run, launch, &readback(run, launch, image, live), &mut compared);
        compared.divergences > 0
    };
    let found = found_before(run, time, memory);
    found.iter().any(|(launch, image)| !is_shared(launch.number, image.address) && differs(launch.number, image))
}

/// Results of launches in this memory that had been found by that time, and that nothing here has come to.
fn found_before<'t>(run: &Run<'t>, time: u64, memory: &[Range<u64>]) -> Vec<(Call<'t>, Image<'t>)> {
    let is_met = |image: &Image| memory.iter().any(|m| m.start < image.memory().end && image.address < m.end);
    let launches: HashSet<u64> = run.before_launches.lock().keys().map(|(launch, ..)| *launch).collect();
    let launches = launches.into_iter().filter_map(|launch| run.trace.call(launch));
    let results = |launch: Call<'t>| launch.looked_at_before(time).map(move |image| (launch, image));
    launches.flat_map(results).filter(|(_, image)| is_met(image)).collect()
}

/// `call`: behind which it is looked at. `may_be_to_come`: what differs is left to whoever waits for the
/// launch, and not known if somebody else has written there by then.
fn compare(run: &Run, call: &Call, launch: &Call, image: &Image, may_be_to_come: bool, tally: &mut Tally) {
    let Some(live) = run.host(&image.memory()) else { return };
    let Some(before) = take_hash(run, launch, image) else { return };
    if run.plan.comparability.host_races.contains(&(call.number, launch.number, image.address)) {
        tally.not_compared(call.number);
        return;
    }
    let written = run.host_writes.position();
    // SAFETY: as above.
    let now = Hash::compute(unsafe { std::slice::from_raw_parts(live as *const u8, image.len as usize) });
    let mut compared = Tally::default();
    payload::compare(run, call.number, &readback(run, launch.number, image, live), &mut compared);
    if compared.divergences > 0 && may_be_to_come {
        let key = (launch.number, image.address, image.len);
        run.before_launches.lock().entry(key).or_insert((before, 0)).1 += 1;
        return;
    }
    // The program and its callbacks may use other parts of the same memory, in no order to this.
    let is_otherwise = |time| {
        let memory = image.memory();
        run.host_writes.are_otherwise(time, &memory, written) || run.callbacks.are_otherwise(time, &memory)
    };
    let may_be_cpus = || {
        let either = call.written().filter(Written::may_be_results).flat_map(|written| written.images());
        either.map(|image| image.memory()).any(|either| meet(&either, &image.memory()))
    };
    let is_unsure = || may_be_cpus() || launch.looked_at_since(image).is_some_and(is_otherwise);
    if compared.divergences > 0 && is_unsure() {
        tally.not_compared(call.number);
    } else if compared.divergences > 0 || now != before {
        tally.add(compared);
    } else {
        tally.unchanged.insert(call.number);
    }
}

/// What was there before, of a result that is compared now.
fn take_hash(run: &Run, launch: &Call, image: &Image) -> Option<Hash> {
    let mut all = run.before_launches.lock();
    let Entry::Occupied(mut known) = all.entry((launch.number, image.address, image.len)) else { return None };
    known.get_mut().1 -= 1;
    let (before, left) = *known.get();
    if left == 0 {
        known.remove();
    }
    Some(before)
}

fn readback<'t>(run: &Run, launch: u64, image: &Image<'t>, live: u64) -> Readback<'t> {
    let len = image.len;
    Readback {
        name: format!("host memory {:#x}, an argument of call {launch}", image.address).into(),
        region: Region { address: live, row_bytes: len, rows: 1, pitch: len, slices: 1, slice_pitch: len },
        memory: None,
        is_shared: false,
        expected: vec![(0, len, image.content)],
        words: Layout::dense(image.address),
        since: run.translation.now(),
    }
}
