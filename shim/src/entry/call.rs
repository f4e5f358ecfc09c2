//! The hot path: the sequence of a call, before and after the driver's own.
//!
//! A call costs two time stamps and two small records written into memory that is already there: no lock, no
//! allocation, no system call.

use crate::capture::launch_records::launched;
use crate::capture::pointers;
use crate::capture::step::{CallEntry, CallReturn};
use crate::entry::steps;
use crate::os::guard::guarded;
use crate::os::{clock, counters, generation};
use crate::recording::range;
use crate::records::lane::{self, Lane, Question, Repeat, RepeatedCall, copy_padded, encode_at};
use crate::records::thread_start::join;
use crate::submission::hook::Hook;
use crate::submission::overlap::{self, Early};
use crate::submission::shape::{Shape, Site};
use std::cell::Cell;
use std::sync::atomic::{Ordering::*, compiler_fence};
use trace::file::record::{self, ATTACHMENT, Attachment, ENTRY_SIZE, Head, INLINE, INNER, RETURN_SIZE, Return};

/// A call that has begun and not returned.
#[derive(Clone, Copy)]
pub(crate) struct Open {
    pub sequence: u32,
    /// The position of the next copy when the call began, if the call may wait for copies.
    pub position: u64,
    /// Null if nothing was read before the call. The return frees it; a call that is left by a jump keeps it
    /// for ever.
    early: *mut Early,
    /// It may be one more of a run of equal questions, which is known when it has returned.
    again: Option<RepeatedCall>,
    /// Of its entry.
    flags: u8,
}

impl Open {
    #[inline(always)]
    fn new(lane: &Lane, position: u64) -> Open {
        Open { sequence: lane.sequence(), position, early: std::ptr::null_mut(), again: None, flags: 0 }
    }
}

/// Records the entry; `None` if the call is not recorded.
#[inline(always)]
pub(crate) fn enter<const N: usize>(site: &'static Site, words: &[u64; N], frame: &Cell<u64>) -> Option<Open> {
    let line = *site;
    let Site { function, id, shape, hook } = line;
    let lane = lane::current();
    let call = CallEntry { lane, site, words };
    {
        if lane.generation.get() != generation::generation() && !join(lane) {
            return None;
        }
        let tells = shape.waits || matches!(hook, Hook::StreamWait { .. });
        if shape.may_be_left_out && range::applies() && lane.leaves_out(shape.submits, tells) {
            steps::left_out(call);
            return None;
        }
        if lane.busy.replace(true) {
            counters::REENTRANT.fetch_add(1, Relaxed);
            return None;
        }
        compiler_fence(SeqCst);
        let inner = lane.outer.get() != 0 && lane.is_inside(frame);
        if shape.calls_back && !inner {
            lane.mark(frame);
        }
        let may_wait = shape.waits || shape.submits && shape.launch.is_none();
        let position = if may_wait || matches!(hook, Hook::EventRecord { .. } | Hook::ContextRecord { .. }) {
            lane.recorder().around.pending.position()
        } else {
            0
        };
        steps::before_entry(call);
        let flags = if inner { INNER } else { 0 };
        if is_question(&shape)
            && let Some(again) = lane.asks_again(question(&line, words))
        {
            lane.busy.set(false);
            return Some(Open { again: Some(again), flags, ..Open::new(lane, position) });
        }
        let mut early = shape.may_be_freed;
        if shape.may_overlap {
            early |= overlap::overwritten(lane, function, words);
        }
        let mut open = Open::new(lane, position);
        let mut deferred = Vec::new();
        if shape.at_entry || early != 0 {
            let read;
            (deferred, read) = pointers::entry(lane, function, id, flags, words, early);
            if read.is_needed() {
                open.early = Box::into_raw(Box::new(read));
            }
            lane.has_entered();
        } else if !lane.put_entry(id, flags, words, clock::entry) {
            lane.busy.set(false);
            return None;
        }
        if (shape.at_entry || shape.may_overlap || shape.may_be_freed != 0) && !deferred.is_empty() {
            guarded(|| deferred.iter().for_each(|record| lane.append(record)));
        }
        steps::after_entry(call);
        compiler_fence(SeqCst);
        lane.busy.set(false);
        steps::before_driver(call, open.sequence);
        Some(open)
    }
}

#[inline(always)]
fn question<'q, const N: usize>(site: &'q Site, words: &'q [u64; N]) -> Question<'q, N> {
    Question { kind: site.shape.repeats, function: site.id, words, outputs: site.shape.outputs }
}

#[inline(always)]
const fn is_question(shape: &Shape) -> bool {
    !matches!(shape.repeats, Repeat::Never)
}

/// Records the return.
#[inline(always)]
pub(crate) fn leave<const N: usize>(
    site: &'static Site,
    words: &[u64; N],
    frame: &Cell<u64>,
    mut open: Open,
    result: u32,
) {
    let line = *site;
    let Site { function, id, shape, .. } = line;
    let again = if is_question(&shape) { open.again } else { None };
    let mut end = if again.is_some_and(|again| !again.is_timed) { 0 } else { clock::exit() };
    let lane = lane::current();
    {
        if shape.calls_back && lane.outer.get() == frame.as_ptr() as usize {
            lane.outer.set(0);
        }
        steps::after_driver(&shape);
        // After fork the child's first return finds the parent's generation: that call is the parent's.
        if lane.generation.get() != generation::generation() || lane.busy.replace(true) {
            return;
        }
        compiler_fence(SeqCst);
        // SAFETY: `enter` has made it, and its call returns once.
        let early = (!open.early.is_null()).then(|| unsafe { Box::from_raw(open.early) });
        let mut is_counted = false;
        if let Some(again) = again.map(|again| (again, open.sequence)) {
            is_counted = lane.counts(question(&line, words), again, result, end);
            if !is_counted {
                let Some(entered) = lane.enters_late(question(&line, words), again, open.flags, end) else {
                    lane.busy.set(false);
                    return;
                };
                (open.sequence, end) = entered;
            }
        }
        let launched = match shape.launch {
            Some(launch) if shape.is_plain && result == 0 => launched(lane, &line, launch, words, open.sequence, end),
            _ => false,
        };
        let (mut has_waited, mut answer) = (false, 0);
        let is_written = launched || is_counted;
        if !is_written && (shape.at_return || result != 0) {
            let early = early.map_or_else(Early::default, |early| *early);
            has_waited = pointers::leave(lane, (function, id), words, open.sequence, early, result, end);
        } else if !is_written {
            answer = put_return(lane, &line, words, open.sequence, result, end);
        }
        if is_question(&shape) && !is_counted {
            lane.record_answer(question(&line, words), result, answer, end);
        } else if shape.is_query && !is_written {
            lane.asks_across(lane.cursor().wrapping_sub(answer + ENTRY_SIZE + 8 * N), end);
        }
        let (sequence, position) = (open.sequence, open.position);
        steps::after_return(CallReturn { lane, site, words, sequence, position, has_waited, result });
        compiler_fence(SeqCst);
        lane.busy.set(false);
    }
}

/// The return of a call whose outputs are of fixed sizes; its bytes, 0 if there was no room.
#[inline(always)]
fn put_return<const N: usize>(lane: &Lane, site: &Site, words: &[u64; N], call: u32, result: u32, end: u64) -> usize {
    let outputs = site.shape.outputs;
    let mut size = RETURN_SIZE;
    for (word, bytes) in outputs {
        if bytes != 0 && words[word as usize] != 0 {
            size += ATTACHMENT + bytes.div_ceil(8) as usize * 8;
        }
    }
    if lane.room() < size && !lane.refill(size) {
        return 0;
    }
    let head = Head { size: size as u32, kind: record::RETURN, flags: 0, function: site.id };
    // SAFETY: `size` bytes from the cursor are in the chunk; the driver has just written the outputs.
    unsafe {
        let mut at = lane.cursor();
        encode_at(at, &Return { head, end, call, result });
        at = at.add(RETURN_SIZE);
        for (word, bytes) in outputs {
            let address = if bytes == 0 { 0 } else { words[word as usize] };
            if address != 0 {
                encode_at(at, &Attachment { form: INLINE, field: word, option: 0, len: bytes.into() });
                at = copy_padded(at.add(ATTACHMENT), address as *const u8, bytes as usize);
            }
        }
        lane.commit(size);
    }
    size
}
