//! Runs of equal questions: a program may ask millions of times whether something is done, or which context
//! is current. The first is a call like any other; those that get the same answer are counted behind its
//! return, in a record that grows where it stands.

use super::Lane;
use crate::clock;
use crate::lane::put;
use std::sync::atomic::{AtomicU64, Ordering::*};
use trace::api::enums::CUresult;
use trace::record::{ATTACHMENT, HEAD, Head, OPTIONAL, REPEATED, RETURN_SIZE, Repeated};

const SIZE: usize = HEAD + size_of::<Repeated>();
/// Its words, by their offsets.
const CALLS: usize = 0;
const TIME: usize = 8;
const BEGIN: usize = 16;
const END: usize = 24;

/// Argument words of a question that is told from the one before.
pub const MOST_ASKED: usize = 4;

/// Whether a call is one that a program may make over and over for the same answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    Never,
    /// It asks whether work is done.
    Poll,
    /// It asks for something that no work changes.
    Query,
}

/// Such a call. `outputs`: the argument word of each, and its bytes.
#[derive(Clone, Copy)]
pub struct Question<'q, const N: usize> {
    pub kind: Repeat,
    pub function: u16,
    pub words: &'q [u64; N],
    pub outputs: [(u8, u8); 4],
}

/// The question that this thread has asked last.
#[derive(Clone, Copy)]
pub(super) struct Run {
    function: u16,
    result: u32,
    words: [u64; MOST_ASKED],
    /// Its return, which has the answer.
    answer: *const u8,
    /// Behind its return, or behind the record that counts the others: whatever comes there ends the run.
    end: *mut u8,
    /// That record.
    record: Option<*mut u8>,
}

impl Run {
    pub(super) const NONE: Run = Run {
        function: 0,
        result: 0,
        words: [0; MOST_ASKED],
        answer: std::ptr::null(),
        end: std::ptr::null_mut(),
        record: None,
    };

    /// Whether this is the same question once more.
    #[inline(always)]
    fn is_about<const N: usize>(&self, question: Question<N>) -> bool {
        self.function == question.function && N <= MOST_ASKED && self.words[..N] == question.words[..]
    }

    /// Whether the driver has just written the same answer.
    #[inline(always)]
    fn is_answered<const N: usize>(&self, question: Question<N>) -> bool {
        let mut at = self.answer.wrapping_add(RETURN_SIZE);
        let mut same = true;
        for (word, bytes) in question.outputs {
            let address = if bytes == 0 { 0 } else { question.words[word as usize] };
            if address != 0 {
                // SAFETY: the return has the outputs in this order, and the driver has written as many bytes.
                same &= unsafe { are_same(at.add(ATTACHMENT), address as *const u8, bytes.into()) };
                at = at.wrapping_add(ATTACHMENT + usize::from(bytes).div_ceil(8) * 8);
            }
        }
        same
    }

    fn word(&self, field: usize) -> Option<&AtomicU64> {
        // SAFETY: a word of a record in this thread's chunk, or there is no run. A reader may be looking at
        // it.
        self.record.map(|record| unsafe { &*record.add(HEAD + field).cast::<AtomicU64>() })
    }
}

/// Whether the same bytes lie at both places.
///
/// # Safety
/// As many can be read there.
#[inline(always)]
unsafe fn are_same(one: *const u8, other: *const u8, len: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match len {
            4 => one.cast::<u32>().read_unaligned() == other.cast::<u32>().read_unaligned(),
            8 => one.cast::<u64>().read_unaligned() == other.cast::<u64>().read_unaligned(),
            _ => std::slice::from_raw_parts(one, len) == std::slice::from_raw_parts(other, len),
        }
    }
}

impl Lane {
    /// A question has been answered, and its return is the last record, of so many bytes if it has outputs.
    #[inline(always)]
    pub fn asked<const N: usize>(&self, question: Question<N>, result: u32, size: usize) {
        let Question { function, words, .. } = question;
        let end = self.cursor.get();
        let mut run = Run { function, result, end, answer: end.wrapping_sub(size), ..Run::NONE };
        run.words[..N.min(MOST_ASKED)].copy_from_slice(&words[..N.min(MOST_ASKED)]);
        self.run.set(run);
    }

    /// Whether the call that begins now asks what the last record is about. It is under way in the record
    /// from here on.
    #[inline(always)]
    pub fn asks_again<const N: usize>(&self, question: Question<N>) -> bool {
        let mut run = self.run.get();
        if run.end != self.cursor.get() || !run.is_about(question) || !self.tells_nothing(question.kind, run.result) {
            return false;
        }
        if run.record.is_none() {
            if self.room() < SIZE {
                return false;
            }
            let head = Head { size: SIZE as u32, kind: REPEATED, flags: OPTIONAL, function: question.function };
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
            // Nothing is ordered by it.
            begin.store(clock::exit(), Relaxed);
        }
        true
    }

    /// Counts a call that began so, if it goes on as the run does.
    #[inline(always)]
    pub fn counts<const N: usize>(&self, question: Question<N>, result: u32, end: u64) -> bool {
        let run = self.run.get();
        // A signal handler may have made calls meanwhile.
        let is_it = run.end == self.cursor.get() && run.is_about(question);
        if !is_it || run.result != result || !self.tells_nothing(question.kind, result) || !run.is_answered(question) {
            return false;
        }
        let (Some(calls), Some(time), Some(begin), Some(last)) =
            (run.word(CALLS), run.word(TIME), run.word(BEGIN), run.word(END))
        else {
            return false;
        };
        // Such a handler may have asked, too.
        let passed = end.saturating_sub(begin.load(Relaxed).max(last.load(Relaxed)));
        // In this order: whoever looks in between, or afterwards if the process is killed here, finds no more
        // than has been.
        last.store(end, Relaxed);
        time.store(time.load(Relaxed).wrapping_add(passed), Release);
        calls.store(calls.load(Relaxed) + 1, Release);
        true
    }

    /// The entry of a call that began so and came out otherwise, now that it has returned: its number, and
    /// when it returned; `None` if it is not recorded.
    #[cold]
    pub fn enters_late<const N: usize>(&self, question: Question<N>, flags: u8, end: u64) -> Option<(u32, u64)> {
        let run = self.run.get();
        let mut times = (end, end);
        if let (true, Some(began), Some(last)) = (run.end == self.cursor.get(), run.word(BEGIN), run.word(END)) {
            times.0 = began.swap(last.load(Relaxed), Relaxed);
        } else {
            // With calls of a signal handler behind it, which may have been made since it returned, it cannot
            // begin before them.
            let now = clock::exit();
            times = (now, now);
        }
        let sequence = self.sequence.get();
        self.put_entry(question.function, flags, question.words, || times.0).then_some((sequence, times.1))
    }

    /// Whether the same answer once more says nothing about what devices have done. That all is done may be
    /// news each time, if other threads give them work.
    #[inline(always)]
    fn tells_nothing(&self, kind: Repeat, result: u32) -> bool {
        match (kind, result) {
            (Repeat::Query, 0) => true,
            (Repeat::Poll, 0) => self.recorder().threads.load(Relaxed) == 1,
            (Repeat::Poll, _) => result == CUresult::CUDA_ERROR_NOT_READY.0,
            _ => false,
        }
    }
}
