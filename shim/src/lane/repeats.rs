//! Runs of equal polls: a program may ask millions of times whether something is done. The first is a call
//! like any other; the others are counted behind its return, in a record that grows where it stands.

use super::Lane;
use crate::clock;
use crate::lane::put;
use std::sync::atomic::{AtomicU64, Ordering::*};
use trace::api::enums::CUresult;
use trace::record::{HEAD, Head, OPTIONAL, REPEATED, Repeated};

const SIZE: usize = HEAD + size_of::<Repeated>();
/// Its words, by their offsets.
const CALLS: usize = 0;
const TIME: usize = 8;
const BEGIN: usize = 16;
const END: usize = 24;

/// The poll that this thread has made last.
#[derive(Clone, Copy)]
pub(super) struct Run {
    function: u16,
    result: u32,
    handle: u64,
    /// Behind its return, or behind the record that counts the others: whatever comes there ends the run.
    end: *mut u8,
    /// That record.
    record: Option<*mut u8>,
}

impl Run {
    pub(super) const NONE: Run = Run { function: 0, result: 0, handle: 0, end: std::ptr::null_mut(), record: None };

    fn word(&self, field: usize) -> Option<&AtomicU64> {
        // SAFETY: a word of a record in this thread's chunk, or there is no run. A reader may be looking at
        // it.
        self.record.map(|record| unsafe { &*record.add(HEAD + field).cast::<AtomicU64>() })
    }
}

impl Lane {
    /// A poll has returned, and its return is the last record.
    #[inline(always)]
    pub fn polled(&self, function: u16, handle: u64, result: u32) {
        self.run.set(Run { function, result, handle, end: self.cursor.get(), record: None });
    }

    /// Whether the poll that begins now asks what the last record is about. It is under way in the record
    /// from here on.
    #[inline(always)]
    pub fn polls_again(&self, function: u16, handle: u64) -> bool {
        let mut run = self.run.get();
        if run.end != self.cursor.get()
            || (run.function, run.handle) != (function, handle)
            || !self.tells_nothing(run.result)
        {
            return false;
        }
        if run.record.is_none() {
            if self.room() < SIZE {
                return false;
            }
            let head = Head { size: SIZE as u32, kind: REPEATED, flags: OPTIONAL, function };
            // SAFETY: `SIZE` bytes from the cursor are in the chunk, and only this thread writes there.
            unsafe {
                put(run.end, &head);
                put(run.end.add(HEAD), &Repeated::default());
                self.commit(SIZE);
            }
            (run.record, run.end) = (Some(run.end), self.cursor.get());
            self.run.set(run);
        }
        if let Some(begin) = run.word(BEGIN) {
            begin.store(clock::entry(), Relaxed);
        }
        true
    }

    /// Counts a poll that began so, if it goes on as the run does.
    #[inline(always)]
    pub fn counts(&self, function: u16, handle: u64, result: u32, end: u64) -> bool {
        let run = self.run.get();
        // A signal handler may have made calls meanwhile.
        let is_it = run.end == self.cursor.get() && (run.function, run.handle) == (function, handle);
        if !is_it || run.result != result || !self.tells_nothing(result) {
            return false;
        }
        let (Some(calls), Some(time), Some(begin), Some(last)) =
            (run.word(CALLS), run.word(TIME), run.word(BEGIN), run.word(END))
        else {
            return false;
        };
        // Such a handler may have polled, too.
        let passed = end.saturating_sub(begin.load(Relaxed).max(last.load(Relaxed)));
        // In this order: whoever looks in between, or afterwards if the process is killed here, finds no more
        // than has been.
        last.store(end, Relaxed);
        time.store(time.load(Relaxed).wrapping_add(passed), Release);
        calls.store(calls.load(Relaxed) + 1, Release);
        true
    }

    /// The entry of a poll that began so and came out otherwise, now that it has returned; `None` if it is
    /// not recorded.
    #[cold]
    pub fn enters_late(&self, function: u16, handle: u64, end: u64) -> Option<u32> {
        let run = self.run.get();
        // With calls of a signal handler behind it, it cannot begin before them.
        let mut begin = end;
        if let (true, Some(began), Some(last)) = (run.end == self.cursor.get(), run.word(BEGIN), run.word(END)) {
            begin = began.swap(last.load(Relaxed), Relaxed);
        }
        let sequence = self.sequence.get();
        self.put_entry(function, 0, &[handle], || begin).then_some(sequence)
    }

    /// Whether the same answer once more says nothing about what devices have done. That all is done may be
    /// news each time, if other threads give them work.
    #[inline(always)]
    fn tells_nothing(&self, result: u32) -> bool {
        match result {
            0 => self.recorder().threads.load(Relaxed) == 1,
            _ => result == CUresult::CUDA_ERROR_NOT_READY.0,
        }
    }
}
