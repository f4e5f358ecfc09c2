//! Runs of equal questions: a program may ask millions of times whether something is done, or which context
//! is current. The first is a call like any other; those that get the same answer are counted behind its
//! return, in a record that grows where it stands. What was asked in turn before gets one at once; else the
//! second is recorded, too, as behind the first there is no place for it.

use super::Lane;
use crate::clock;
use crate::lane::put;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::*};
use trace::api::enums::CUresult;
use trace::record::{ATTACHMENT, ENTRY_SIZE, HEAD, Head, OPTIONAL, REPEATED, RETURN_SIZE, Repeated};
use trace::record::{TIMED_IN_PART, TIMED_ONE_IN};

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

/// A call that may be one more of a run.
#[derive(Clone, Copy)]
pub struct Again {
    number: u8,
    /// Whether time stamps are taken around it: they would be most of what it costs.
    pub is_timed: bool,
}

/// The questions that this thread has asked last. Some of them are runs: each was asked after the other or in
/// turn, with nothing else of the thread's in between.
pub(super) struct Asked {
    /// Behind the last record of the runs: whatever comes there ends them.
    end: Cell<*mut u8>,
    /// A bit for each that is a run; the others are of earlier ones.
    running: Cell<u8>,
    runs: [Cell<Run>; IN_TURN],
}

/// Frameworks ask two things in turn before each launch.
const IN_TURN: usize = 4;

/// One of them.
#[derive(Clone, Copy)]
struct Run {
    function: u16,
    /// Where a poll stands among other calls matters: it has no others beside it.
    is_poll: bool,
    /// It has been asked again: so it may be next time.
    has_repeated: bool,
    result: u32,
    words: [u64; MOST_ASKED],
    /// Its return, which has the answer, and the place behind that.
    answer: *const u8,
    behind: *mut u8,
    /// Which counts the others: there, if it stands at all.
    record: Option<*mut u8>,
}

impl Asked {
    pub(super) const fn nothing() -> Asked {
        Asked {
            end: Cell::new(std::ptr::null_mut()),
            running: Cell::new(0),
            runs: [const { Cell::new(Run::NONE) }; IN_TURN],
        }
    }

    pub(super) fn forget(&self) {
        self.end.set(std::ptr::null_mut());
        self.running.set(0);
    }

    #[inline(always)]
    fn is_running(&self, number: usize) -> bool {
        self.running.get() >> number & 1 != 0
    }

    /// The run that this question is about, and its number.
    #[inline(always)]
    fn about<const N: usize>(&self, question: Question<N>) -> Option<(usize, Run)> {
        let mut number = 0;
        while number < IN_TURN {
            if self.is_running(number) {
                let run = self.runs[number].get();
                if run.is_about(question) {
                    return Some((number, run));
                }
            }
            number += 1;
        }
        None
    }

    /// Where a question is kept that is no run yet, whose records begin at a place: with the runs, or instead
    /// of them. Whether it is likely to be asked again.
    #[inline(always)]
    fn place(&self, function: u16, kind: Repeat, start: *mut u8) -> (usize, bool) {
        let running = self.running.get();
        let is_beside_poll = || self.runs[running.trailing_zeros() as usize].get().is_poll;
        let continues = kind == Repeat::Query && running != 0 && self.end.get() == start && !is_beside_poll();
        let is_full = running == (1 << IN_TURN) - 1;
        if !continues || is_full {
            self.running.set(0);
        }
        let number =
            (0..IN_TURN).find(|number| !self.is_running(*number) && self.runs[*number].get().function == function);
        let number = number.unwrap_or_else(|| self.running.get().trailing_ones() as usize);
        self.running.set(self.running.get() | 1 << number);
        let old = self.runs[number].get();
        (number, kind == Repeat::Query && old.function == function && old.has_repeated)
    }
}

impl Run {
    const NONE: Run = Run {
        function: u16::MAX,
        is_poll: false,
        has_repeated: false,
        result: 0,
        words: [0; MOST_ASKED],
        answer: std::ptr::null(),
        behind: std::ptr::null_mut(),
        record: None,
    };

    /// Whether this is the same question once more. Where the answer goes does not matter.
    #[inline(always)]
    fn is_about<const N: usize>(&self, question: Question<N>) -> bool {
        let mut is_same = self.function == question.function && N <= MOST_ASKED;
        let mut word = 0;
        while word < N && word < MOST_ASKED {
            let (old, new) = (self.words[word], question.words[word]);
            is_same &= if question.is_output(word) { (old == 0) == (new == 0) } else { old == new };
            word += 1;
        }
        is_same
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

impl<const N: usize> Question<'_, N> {
    #[inline(always)]
    fn is_output(&self, word: usize) -> bool {
        self.outputs.iter().any(|(output, bytes)| *bytes != 0 && usize::from(*output) == word)
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
        let Question { function, words, kind, .. } = question;
        let behind = self.cursor.get();
        let is_poll = kind == Repeat::Poll;
        let mut run = Run { function, is_poll, result, behind, answer: behind.wrapping_sub(size), ..Run::NONE };
        run.words[..N.min(MOST_ASKED)].copy_from_slice(&words[..N.min(MOST_ASKED)]);
        let asked = &self.asked;
        let start = run.answer.wrapping_sub(ENTRY_SIZE + 8 * N).cast_mut();
        let known = if kind == Repeat::Query && asked.end.get() == start { asked.about(question) } else { None };
        let (number, is_likely) = match known {
            Some((number, old)) => {
                if old.record.is_some() {
                    // The answer has changed: the others end here, too.
                    asked.running.set(1 << number);
                }
                (number, true)
            }
            None => asked.place(function, kind, start),
        };
        if is_likely {
            // Others may be asked before it is again: behind those there is no place for its count.
            run.record = self.put_count(function, kind);
        }
        asked.runs[number].set(run);
        asked.end.set(self.cursor.get());
    }

    /// The record that counts what repeats the call before it; none if there is no room left in the chunk.
    fn put_count(&self, function: u16, kind: Repeat) -> Option<*mut u8> {
        if self.room() < SIZE {
            return None;
        }
        let at = self.cursor.get();
        let flags = if kind == Repeat::Query { OPTIONAL | TIMED_IN_PART } else { OPTIONAL };
        let head = Head { size: SIZE as u32, kind: REPEATED, flags, function };
        // SAFETY: `SIZE` bytes from the cursor are in the chunk, and only this thread writes there.
        unsafe {
            put(at, &head);
            put(at.add(HEAD), &Repeated::default());
            self.commit(SIZE);
        }
        Some(at)
    }

    /// Whether the call that begins now repeats one of the last, and may be counted. It is under way in the
    /// record from here on.
    #[inline(always)]
    pub fn asks_again<const N: usize>(&self, question: Question<N>) -> Option<Again> {
        let asked = &self.asked;
        if asked.end.get() != self.cursor.get() {
            return None;
        }
        let (number, mut run) = asked.about(question)?;
        if !self.tells_nothing(question.kind, run.result) {
            return None;
        }
        if run.record.is_none() {
            if run.behind != self.cursor.get() {
                return None;
            }
            run.record = Some(self.put_count(question.function, question.kind)?);
            asked.runs[number].set(run);
            asked.end.set(self.cursor.get());
        }
        let (calls, begin, end) = (run.word(CALLS)?, run.word(BEGIN)?, run.word(END)?);
        let is_timed = question.kind == Repeat::Poll || calls.load(Relaxed).is_multiple_of(TIMED_ONE_IN);
        // Nothing is ordered by it.
        begin.store(if is_timed { clock::exit() } else { end.load(Relaxed) + 1 }, Relaxed);
        Some(Again { number: number as u8, is_timed })
    }

    /// The run that a call goes on with, if its thread has made no other since it began, when so many were
    /// recorded. A signal handler may have.
    #[inline(always)]
    fn goes_on(&self, again: Again, begun: u32) -> Option<Run> {
        let is_it = self.sequence.get() == begun && self.asked.end.get() == self.cursor.get();
        is_it.then(|| self.asked.runs[again.number as usize].get())
    }

    /// Counts a call that began so, if it goes on as the run does; `end`: of one that is timed.
    #[inline(always)]
    pub fn counts<const N: usize>(
        &self,
        question: Question<N>,
        (again, begun): (Again, u32),
        result: u32,
        end: u64,
    ) -> bool {
        let Some(run) = self.goes_on(again, begun) else { return false };
        if run.result != result || !self.tells_nothing(question.kind, result) || !run.is_answered(question) {
            return false;
        }
        let (Some(calls), Some(time), Some(begin), Some(last)) =
            (run.word(CALLS), run.word(TIME), run.word(BEGIN), run.word(END))
        else {
            return false;
        };
        // In this order: whoever looks in between, or afterwards if the process is killed here, finds no more
        // than has been.
        if again.is_timed {
            // Such a handler may have asked, too.
            let passed = end.saturating_sub(begin.load(Relaxed).max(last.load(Relaxed)));
            last.store(end, Relaxed);
            time.store(time.load(Relaxed).wrapping_add(passed), Release);
        } else {
            begin.store(last.load(Relaxed), Release);
        }
        calls.store(calls.load(Relaxed) + 1, Release);
        if !run.has_repeated {
            self.asked.runs[again.number as usize].set(Run { has_repeated: true, ..run });
        }
        true
    }

    /// The entry of a call that began so and came out otherwise, now that it has returned: its number, and
    /// when it returned; `None` if it is not recorded.
    #[cold]
    pub fn enters_late<const N: usize>(
        &self,
        question: Question<N>,
        (again, begun): (Again, u32),
        flags: u8,
        end: u64,
    ) -> Option<(u32, u64)> {
        let run = self.goes_on(again, begun).unwrap_or(Run::NONE);
        // With calls of a signal handler behind it, which may have been made since it returned, it cannot
        // begin before them.
        let now = clock::exit();
        let mut times = (now, now);
        if let (Some(calls), Some(time), Some(began), Some(last)) =
            (run.word(CALLS), run.word(TIME), run.word(BEGIN), run.word(END))
        {
            let last = last.load(Relaxed);
            let began = began.swap(last, Relaxed);
            // As long as the others, if nobody looked.
            let each = time.load(Relaxed) / calls.load(Relaxed).div_ceil(TIMED_ONE_IN).max(1);
            times = if again.is_timed { (began, end) } else { (now.saturating_sub(each).max(last), now) };
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
