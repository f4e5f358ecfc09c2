//! Results of completed work, hashed at the moment when the application may first read them.

use crate::capture::step::CallReturn;
use crate::driver::queries;
use crate::driver::queue::Queue;
use crate::host_memory::destinations;
use crate::in_flight::host_functions;
use crate::in_flight::landing_range::Landing;
use crate::in_flight::long_results::{self, MOST_READ};
use crate::in_flight::node_runs::Turn;
use crate::in_flight::pending::{ConcurrentWrites, Copy, Covered, Work};
use crate::os::dirty_pages::pages_of;
use crate::os::guard::guarded;
use crate::os::intervals::{at_most, joined, without};
use crate::records::lane::Lane;
use crate::submission::observation::observed;
use crate::submission::target_stream;
use crate::trace_file::pieces::{self, Memory};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use trace::Function;
use trace::api::copies::Region;
use trace::api::roles::{Class, Role};
use trace::api::table::Awaited;
use trace::base::hash::{Hash, Hasher};
use trace::file::preamble::Data;
use trace::file::record;
use trace::model::driver_addresses;

/// Memory in which callbacks have written is looked at around what they wrote, or around rather more than
/// that.
const MOST_PIECES: usize = 32;

/// A synchronisation or a poll has succeeded, or a copy has waited: what it covered can be seen by the
/// application now.
#[inline(always)]
pub(crate) fn after_return(call: CallReturn) {
    let CallReturn { lane, site, words, position, has_waited, result, .. } = call;
    if (site.shape.waits || has_waited) && result == 0 && lane.recorder().around.pending.any() {
        guarded(|| observe(lane, site.function, words, position, has_waited));
    }
}

#[cold]
fn observe(lane: &Lane, function: &'static Function, words: &[u64], position: u64, is_copied: bool) {
    let per_thread = function.twin_of.is_some();
    let queue = |stream| Queue::resolve(stream, per_thread, lane.index(), queries::current_context);
    let covered = match function.awaited() {
        Some(Awaited::Stream(stream)) => Covered::Stream(queue(words[stream])),
        // Both have come to pass, and the first may be any other's.
        Some(Awaited::Events([first, last])) => {
            if first != last {
                finished(lane, Covered::Event(words[first]), position);
            }
            Covered::Event(words[last])
        }
        Some(Awaited::Context(at)) => {
            Covered::Context(Awaited::context(at, |at| words[at]).unwrap_or_else(queries::current_context))
        }
        // It was work on its stream: the legacy one, or the thread's own, if it names none.
        None if is_copied || function.params.iter().any(|p| matches!(p.role, Role::Sink(_))) => {
            before_work_on(queue(target_stream::stream(function, words).unwrap_or(0)))
        }
        None => return,
    };
    // Beside callbacks it is left to the next call: whose it is would be a guess more.
    let is_quiet = !host_functions::any_under_way() && !host_functions::any_of_nodes();
    if finished(lane, covered, position) && function.class != Class::poll && is_quiet {
        let mut writes = lane.writes_during_wait();
        lane.recorder().watch.scan_after_wait(&mut writes);
        lane.add(writes);
    }
}

fn before_work_on(queue: Queue) -> Covered<'static> {
    if queue.is_legacy() { Covered::Legacy(queries::current_context()) } else { Covered::Stream(queue) }
}

/// A launch that has been waited for, and with it what it was put behind: only with CUDA_LAUNCH_BLOCKING.
pub(crate) fn behind_work(call: CallReturn) {
    if call.site.shape.launches && call.lane.recorder().launches_wait {
        launch_ended(call.lane, call.site.function, call.words);
    }
}

#[cold]
fn launch_ended(lane: &Lane, function: &'static Function, words: &[u64]) {
    let pending = &lane.recorder().around.pending;
    if !pending.any() {
        return;
    }
    guarded(|| {
        let (stream, per_thread) = (target_stream::stream(function, words).unwrap_or(0), function.twin_of.is_some());
        if !queries::is_capturing(stream, per_thread) {
            let queue = Queue::resolve(stream, per_thread, lane.index(), queries::current_context);
            finished(lane, before_work_on(queue), pending.position());
        }
    });
}

/// A callback that this thread handed over begins: what stands before it, or is to be done by its own graph
/// before it, has finished.
pub(crate) fn turn_comes(lane: &Lane, thread: u32, turn: &Turn) {
    if lane.recorder().around.pending.any() {
        // First: what is known to be done is forgotten.
        own_results(lane, turn);
        finished(lane, Covered::Turn(turn), turn.before);
    }
    if turn.is_of_graph() && lane.recorder().watch.any() {
        // Those behind it had their turn when it ran before.
        let around = turn.around.before.iter().chain(&turn.around.after);
        let places = around.flat_map(|region| Landing::Rows(*region).places());
        let copied = joined(places.map(|place| pages_of(&place)).collect());
        let unknown = lane.recorder().watch.computed([thread, turn.by.0], &copied);
        // The callback may put back there what is taken to have been there: that will not be seen.
        lane.recorder().around.pending.called_back(&unknown);
    }
    // What launches beside it have made by now is theirs, on pages where it writes, too.
    for range in lane.recorder().around.pending.launch_memory(MOST_READ) {
        lane.recorder().watch.computed_in(range, &[]);
    }
    for region in &turn.around.before {
        filled(lane, Landing::Rows(*region));
    }
}

/// What the callback's own graph has copied to the host for it: the callback may put something else in its
/// place.
fn own_results(lane: &Lane, turn: &Turn) {
    let recorder = lane.recorder();
    for region in turn.around.results.iter().filter(|region| region.bytes() <= destinations::MOST_BYTES) {
        let landing = Landing::Flat { address: region.address, len: region.bytes() };
        let is_pageable = !recorder.shares(region.address, 1);
        let pinned = &recorder.around.pinned;
        let is_readable = || pinned.holds(region.address, region.bytes()) && !pinned.is_write_combined(region.address);
        let is_ones = || is_readable() && recorder.watch.is_of_one(&landing.extent());
        let is_known = (is_pageable || is_ones()) && recorder.around.pending.has_only_own(region, is_pageable, turn);
        // Whatever its length: a graph may run any number of times in a second, and waits for this.
        if is_known && recorder.long_results.take(region.bytes()) {
            let copy = Copy::new(landing, 0, None, turn.by.0, turn.by.1);
            if let Some(found) = landed(lane, landing, Writer::Work) {
                observed(lane, &copy, Some(found));
            }
        }
    }
}

/// Writes down what the copies brought that were waited for. Whether the CPU has written, since somebody
/// looked last, in memory of launches that were: other threads while this one waited, and the launches may
/// have waited for that.
pub(crate) fn finished(lane: &Lane, covered: Covered, position: u64) -> bool {
    let recorder = lane.recorder();
    let waiter = (!matches!(covered, Covered::Turn(_))).then_some(lane.index());
    let finished = recorder.around.pending.finished(covered, position, waiter);
    finished
        .copied_by_cpu
        .iter()
        .for_each(|(queue, copy, pages)| recorder.watch.copied_by_cpu(&recorder.around.pending, copy, *queue, pages));
    finished.partly.iter().for_each(|copy| match copy.work {
        // Another may be about to write there.
        Work::Launch => recorder.watch.computed_in(copy.landing.extent(), &[]),
        _ => look_at(lane, copy, &ConcurrentWrites::default(), &[]),
    });
    let is_launch = |copy: &&Copy| waiter.is_some() && copy.work == Work::Launch;
    let launches = finished.copies.iter().map(|(copy, _)| copy).filter(is_launch);
    // Before it is known.
    let doubtful: Vec<Range<u64>> =
        launches.flat_map(|copy| recorder.watch.doubtful_in(&copy.landing.extent())).collect();
    finished.copies.iter().for_each(|(copy, beside)| look_at(lane, copy, beside, finished.copied_by_cpu(copy)));
    let unnamed = finished.partly.iter().chain(finished.copies.iter().map(|(copy, _)| copy));
    let unnamed: BTreeSet<(u32, bool)> = unnamed.filter_map(|copy| Some((copy.thread, copy.work.unnamed()?))).collect();
    if !unnamed.is_empty() {
        recorder.watch.expect_unnamed_results(&unnamed);
    }
    let is_written = |copy: &Copy| {
        let is_launch = matches!(copy.work, Work::Launch | Work::Given);
        is_launch && recorder.watch.has_written_in(&copy.landing.extent())
    };
    let any_written = waiter.is_some() && finished.copies.iter().any(|(copy, _)| is_written(copy));
    recorder.around.pending.looked_at(&finished);
    if !doubtful.is_empty() {
        let mut writes = lane.writes_or_results();
        doubtful.into_iter().for_each(|range| writes.take(range));
        lane.add(writes);
    }
    any_written
}

/// `beside`: where the CPU wrote meanwhile. `copied_by_cpu`: pages to which it has copied for the driver.
fn look_at(lane: &Lane, copy: &Copy, beside: &ConcurrentWrites, copied_by_cpu: &[Range<u64>]) {
    let recorder = lane.recorder();
    if copy.work == Work::Given {
        return recorder.watch.expect_results(copy.landing.extent());
    }
    if !copy.work.writes() {
        return;
    }
    let extent = copy.landing.extent();
    if copy.is_superseded {
        return recorder.watch.computed_in(extent, copied_by_cpu);
    }
    // What a kernel made of memory can be told only where nobody else writes: where others do, in order and
    // apart; none if it may be anywhere.
    let others = || {
        let pending = &recorder.around.pending;
        let is_launch = copy.work == Work::Launch;
        let has_other_writers = || pending.has_other_writers(copy, !recorder.watch.is_of_one(&extent), lane.index());
        if pending.is_overwritten(copy, lane.index()) || has_other_writers() {
            return None;
        }
        // In this order: what a callback's scan has taken out of sight is told before it is.
        let untold = if is_launch { recorder.watch.untold_in(&extent)? } else { Vec::new() };
        let called_back = if is_launch { pending.called_back_in(copy)? } else { Vec::new() };
        Some(at_most(MOST_PIECES, &joined([untold, called_back, beside.others.clone()].concat())))
    };
    if copy.work == Work::Fill {
        return filled(lane, copy.landing);
    }
    if let Work::Graph(before) = copy.work {
        let found = landed(lane, copy.landing, Writer::Work).filter(|(_, hash)| *hash != before);
        if others().is_some() {
            observed(lane, copy, found);
        }
        return;
    }
    let Some(theirs) = others() else {
        return match copy.work {
            Work::Launch => recorder.watch.computed_in(extent, copied_by_cpu),
            // The driver may have had the CPU make it: that was not the program.
            _ => filled(lane, copy.landing),
        };
    };
    theirs.iter().for_each(|place| recorder.watch.computed_in(place.clone(), copied_by_cpu));
    // What the CPU wrote meanwhile for itself: whether it was the last to do so is told by that.
    let pieces: Vec<Copy> = match copy.landing {
        Landing::Flat { address, len } if !beside.own.is_empty() || !theirs.is_empty() => {
            let places = without(address..address + len, &beside.own).into_iter().chain(beside.own.iter().cloned());
            let piece = |place: Range<u64>| Landing::Flat { address: place.start, len: place.end - place.start };
            places.flat_map(|place| without(place, &theirs)).map(|place| copy.with_landing(piece(place))).collect()
        }
        _ => vec![*copy],
    };
    let by = if copy.work == Work::Launch { Writer::Launch } else { Writer::Work };
    let pieces =
        if by == Writer::Launch { pieces.iter().flat_map(|piece| readable(lane, piece)).collect() } else { pieces };
    let found: Vec<_> = pieces.iter().map(|piece| arrived(lane, piece.landing, by)).collect();
    // Or has just begun to.
    if others().is_none_or(|now| now != theirs) {
        return;
    }
    for (piece, found) in pieces.iter().zip(found) {
        match found {
            Some(found) => {
                let parts = cut(piece.landing, by).into_iter().zip(found);
                parts.for_each(|(landing, found)| observed(lane, &piece.with_landing(landing), Some(found)));
            }
            None => observed(lane, piece, None),
        }
    }
}

/// As much of what a launch has made of memory as may be read; the rest is not known from now on.
fn readable(lane: &Lane, made: &Copy) -> Vec<Copy> {
    let extent = made.landing.extent();
    if made.landing.bytes() <= long_results::SHORT {
        return vec![*made];
    }
    let is_slow = lane.recorder().around.pinned.is_write_combined(extent.start);
    let starts = extent.clone().step_by(long_results::PIECE as usize);
    let pieces = starts.map(|address| Landing::Flat { address, len: long_results::PIECE.min(extent.end - address) });
    let read: Vec<Copy> = pieces
        .take_while(|piece| !is_slow && lane.recorder().long_results.take(piece.bytes()))
        .map(|piece| made.with_landing(piece))
        .collect();
    let unread = read.last().map_or(extent.start, |last| last.landing.end())..extent.end;
    if !unread.is_empty() {
        lane.recorder().watch.expect_results(unread);
    }
    read
}

/// Of this no more is told: a replay fills the same.
pub(crate) fn filled(lane: &Lane, landing: Landing) {
    if !lane.recorder().watch.any() {
        return;
    }
    for place in landing.places() {
        // To touch managed memory would bring it here; what a copy brought there is compared when the CPU has
        // it.
        if lane.recorder().watch.managed.find(place.start).is_some() {
            lane.recorder().watch.expect_results(place);
            continue;
        }
        // Pinned memory may have been unmapped: the device still reaches it.
        lane.recorder().watch.landed(place.start, place.end - place.start, true, false);
    }
}

const PIECE: u64 = record::PIECE as u64;

/// The writer of some bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    /// This very call: the driver has written there, so that it can be read directly.
    Call,
    Work,
    /// A kernel may have written there, and the CPU beside it.
    Launch,
}

/// What stands for the result of a copy: long ones are told in pieces, rows together.
pub(crate) fn in_pieces(landing: Landing) -> Vec<Landing> {
    cut(landing, Writer::Work)
}

/// What a launch has made of memory has been cut up before, by what may be read of it.
fn cut(landing: Landing, by: Writer) -> Vec<Landing> {
    match landing {
        Landing::Flat { address, len } if by != Writer::Launch && len > PIECE => {
            let piece = |from| Landing::Flat { address: address + from, len: PIECE.min(len - from) };
            (0..len).step_by(PIECE as usize).map(piece).collect()
        }
        _ => vec![landing],
    }
}

/// The form and the hash of each piece of what a copy brought, as [`in_pieces`] has them.
pub(crate) fn arrived(lane: &Lane, landing: Landing, by: Writer) -> Option<Vec<(u8, Hash)>> {
    let recorder = lane.recorder();
    match landing {
        Landing::Flat { address, len } if by != Writer::Launch && len > PIECE => {
            let careful = by != Writer::Call && !recorder.around.pinned.holds_driver_memory(address, len);
            let bytes = recorder.watch.landed(address, len, careful, false)?;
            pieces::results(&recorder.around, Memory::Sure(bytes))
        }
        _ => landed(lane, landing, by).map(|found| vec![found]),
    }
}

/// The hash of what a copy brought. The bytes go into the trace with `--data=all`, and if they may hold
/// addresses that a replay has to learn.
pub(crate) fn landed(lane: &Lane, landing: Landing, by: Writer) -> Option<(u8, Hash)> {
    let recorder = lane.recorder();
    let form = |bytes: &[u8]| {
        let is_kept = recorder.around.data == Data::All || recorder.invented.teaches(bytes);
        let blob = is_kept.then(|| recorder.around.file.blob(bytes)).flatten();
        blob.map_or_else(|| (record::HASH, Hash::compute(bytes)), |hash| (record::BLOB, hash))
    };
    match landing {
        Landing::Flat { address, len } => {
            let careful = by != Writer::Call && !recorder.around.pinned.holds_driver_memory(address, len);
            Some(form(&recorder.watch.landed(address, len, careful, by == Writer::Launch)?))
        }
        Landing::Rows(region) => {
            let careful =
                by != Writer::Call && !recorder.around.pinned.holds_driver_memory(region.address, region.span());
            let read = |row, len| recorder.watch.landed(row, len, careful, by == Writer::Launch);
            if recorder.around.data == Data::All || region.bytes() <= driver_addresses::MOST as u64 {
                return Some(form(&packed_rows(&region, read)?));
            }
            let mut hasher = Hasher::default();
            for row in region.row_addresses() {
                hasher.update(&read(row, region.row_bytes)?);
            }
            Some((record::HASH, hasher.finish()))
        }
    }
}

/// The rows one behind the other, each as it is read by its address and length.
pub(crate) fn packed_rows<'b>(region: &Region, read: impl Fn(u64, u64) -> Option<Cow<'b, [u8]>>) -> Option<Vec<u8>> {
    let mut packed = Vec::new();
    packed.try_reserve_exact(usize::try_from(region.bytes()).ok()?).ok()?;
    for row in region.row_addresses() {
        packed.extend_from_slice(&read(row, region.row_bytes)?);
    }
    Some(packed)
}
