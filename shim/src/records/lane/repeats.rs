//! Runs of equal polls and queries: a program may ask millions of times whether work is complete, or which
//! context is current. The first is an ordinary call; those with the same result are counted behind its
//! return, in a record that is updated in place. If the same queries alternated before, the count follows the
//! first at once; else the second is recorded too, because there is no room for a count behind the first.

use super::Lane;
use crate::os::clock;
use crate::records::lane::encode_at;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::*};
use trace::api::enums::CUresult;
use trace::file::record::{ACROSS, ATTACHMENT, ENTRY_SIZE, HEAD, Head, OPTIONAL, REPEATED, RETURN_SIZE, Repeated};
use trace::file::record::{TIMED_IN_PART, TIMED_ONE_IN};

const SIZE: usize = HEAD + size_of::<Repeated>();

/// Its words. A reader may be looking at them.
#[repr(C)]
struct Counts {
    calls: AtomicU64,
    time: AtomicU64,
    begin: AtomicU64,
    end: AtomicU64,
}

/// Argument words of a question that is told from the one before.
pub(crate) const MOST_ASKED: usize = 4;

/// Whether a program may repeat a call for the same result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    Never,
    /// It asks whether work is done.
    Poll,
    /// It asks for something that no work changes.
    Query,
}

/// A poll or query. `outputs`: the argument word of each output, and its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Question<'q, const N: usize> {
    pub kind: Repeat,
    pub function: u16,
    pub words: &'q [u64; N],
    pub outputs: [(u8, u8); 4],
}

/// A call that may extend a run.
#[derive(Clone, Copy)]
pub(crate) struct RepeatedCall {
    number: u8,
    /// Whether time stamps are taken around it: they would be most of what it costs.
    pub is_timed: bool,
}

/// The latest polls and queries of this thread. Some of them are runs: consecutive or alternating, with
/// nothing else of the thread in between but launches and other queries that are on the hot path.
pub(super) struct RecentQueries {
    /// Behind the last record of the runs, and of the launches and other queries that follow: whatever else
    /// comes there ends them.
    end: Cell<*mut u8>,
    /// Ticks at the last return among those records.
    returned: Cell<u64>,
    /// How many calls the thread had recorded when the first of the runs began.
    since: Cell<u32>,
    /// A bit for each that is a run; the others are of earlier ones.
    running: Cell<u8>,
    /// Of each: apart from the rest, for one is looked for among all.
    functions: [Cell<u16>; IN_TURN],
    runs: [Run; IN_TURN],
}

/// Frameworks ask two things in turn before each launch.
const IN_TURN: usize = 4;

/// One of them, in a cache line.
#[repr(align(64))]
struct Run {
    /// Where a poll stands among other calls matters: it has no others beside it.
    is_poll: Cell<bool>,
    /// It has been asked again: so it may be next time.
    has_repeated: Cell<bool>,
    result: Cell<u32>,
    /// What counts the others, in this thread's chunk; null if it does not stand yet.
    counts: Cell<*const Counts>,
    /// Its return, which has the answer, and the place behind that.
    answer: Cell<*const u8>,
    behind: Cell<*mut u8>,
    words: [Cell<u64>; MOST_ASKED],
}

impl RecentQueries {
    pub(super) const fn nothing() -> RecentQueries {
        RecentQueries {
            end: Cell::new(std::ptr::null_mut()),
            returned: Cell::new(0),
            since: Cell::new(0),
            running: Cell::new(0),
            functions: [const { Cell::new(u16::MAX) }; IN_TURN],
            runs: [const { Run::none() }; IN_TURN],
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

    /// Whether the run is of polls, which have no others beside them.
    #[inline(always)]
    fn is_of_polls(&self) -> bool {
        let first = self.running.get().trailing_zeros() as usize;
        first < IN_TURN && self.runs[first].is_poll.get()
    }

    /// The run that this question is about, and its number.
    #[inline(always)]
    fn about<const N: usize>(&self, question: Question<N>) -> Option<(usize, &Run)> {
        let mut number = 0;
        while number < IN_TURN {
            let is_of_function = self.is_running(number) && self.functions[number].get() == question.function;
            if is_of_function && self.runs[number].is_about(question) {
                return Some((number, &self.runs[number]));
            }
            number += 1;
        }
        None
    }

    /// Where a question is kept that is no run yet, whose records begin at a place: with the runs, or instead
    /// of them. Whether it is likely to be asked again.
    #[inline(always)]
    fn place(&self, function: u16, kind: Repeat, start: *mut u8, sequence: u32) -> (usize, bool) {
        let running = self.running.get();
        let continues = kind == Repeat::Query && running != 0 && self.end.get() == start && !self.is_of_polls();
        let is_full = running == (1 << IN_TURN) - 1;
        if !continues || is_full {
            self.running.set(0);
            self.since.set(sequence);
        }
        let number = (0..IN_TURN).find(|number| !self.is_running(*number) && self.functions[*number].get() == function);
        let number = number.unwrap_or_else(|| self.running.get().trailing_ones() as usize);
        self.running.set(self.running.get() | 1 << number);
        let is_known = self.functions[number].get() == function && self.runs[number].has_repeated.get();
        (number, kind == Repeat::Query && is_known)
    }
}

impl Run {
    const fn none() -> Run {
        Run {
            is_poll: Cell::new(false),
            has_repeated: Cell::new(false),
            result: Cell::new(0),
            counts: Cell::new(std::ptr::null()),
            answer: Cell::new(std::ptr::null()),
            behind: Cell::new(std::ptr::null_mut()),
            words: [const { Cell::new(0) }; MOST_ASKED],
        }
    }

    /// Whether this question, of the run's function, is the same once more. Where the answer goes does not
    /// matter.
    #[inline(always)]
    fn is_about<const N: usize>(&self, question: Question<N>) -> bool {
        let mut is_same = N <= MOST_ASKED;
        let mut word = 0;
        while word < N && word < MOST_ASKED {
            let (old, new) = (self.words[word].get(), question.words[word]);
            is_same &= if question.is_output(word) { (old == 0) == (new == 0) } else { old == new };
            word += 1;
        }
        is_same
    }

    /// Whether the driver has just written the same answer.
    #[inline(always)]
    fn is_answered<const N: usize>(&self, question: Question<N>) -> bool {
        let mut at = self.answer.get().wrapping_add(RETURN_SIZE);
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

    fn counts(&self) -> Option<&Counts> {
        // SAFETY: of a record in this thread's chunk, or null.
        unsafe { self.counts.get().as_ref() }
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
    /// A question has been answered, and its return at `end` is the last record, of so many bytes if it has
    /// outputs.
    #[inline(always)]
    pub(crate) fn record_answer<const N: usize>(&self, question: Question<N>, result: u32, size: usize, end: u64) {
        let Question { function, words, kind, .. } = question;
        let (asked, behind) = (&self.asked, self.cursor.get());
        let answer = behind.wrapping_sub(size);
        let start = answer.wrapping_sub(ENTRY_SIZE + 8 * N);
        let known = if kind == Repeat::Query && asked.end.get() == start { asked.about(question) } else { None };
        let (number, is_likely) = match known {
            Some((number, old)) => {
                if old.counts().is_some() {
                    // The answer has changed: the others end here, too.
                    asked.running.set(1 << number);
                }
                (number, true)
            }
            None => asked.place(function, kind, start, self.sequence.get()),
        };
        let run = &asked.runs[number];
        asked.functions[number].set(function);
        run.is_poll.set(kind == Repeat::Poll);
        run.has_repeated.set(false);
        run.result.set(result);
        run.answer.set(answer);
        run.behind.set(behind);
        run.words.iter().zip(words).for_each(|(word, asked)| word.set(*asked));
        // Others may be asked before it is again: behind those there is no place for its count.
        run.counts.set(if is_likely { self.put_count(function, kind) } else { std::ptr::null() });
        asked.end.set(self.cursor.get());
        asked.returned.set(end);
    }

    /// A kernel has been launched, or something asked that is not counted. If entry and return of that call
    /// are all that stands from `start` to the cursor, runs of queries go on behind it, for a while. `end`:
    /// of its return.
    #[inline(always)]
    pub(crate) fn asks_across(&self, start: *mut u8, end: u64) {
        let asked = &self.asked;
        let goes_on = asked.end.get() == start && self.sequence.get().wrapping_sub(asked.since.get()) < ACROSS;
        if goes_on && !asked.is_of_polls() {
            asked.end.set(self.cursor.get());
            asked.returned.set(end);
        }
    }

    /// The record that counts what repeats the call before it; null if there is no room left in the chunk.
    fn put_count(&self, function: u16, kind: Repeat) -> *const Counts {
        if self.room() < SIZE {
            return std::ptr::null();
        }
        let at = self.cursor.get();
        let flags = if kind == Repeat::Query { OPTIONAL | TIMED_IN_PART } else { OPTIONAL };
        let head = Head { size: SIZE as u32, kind: REPEATED, flags, function };
        // SAFETY: `SIZE` bytes from the cursor are in the chunk, and only this thread writes there.
        unsafe {
            encode_at(at, &head);
            encode_at(at.add(HEAD), &Repeated::default());
            self.commit(SIZE);
            at.add(HEAD).cast()
        }
    }

    /// Whether the call that begins now repeats one of the last, and may be counted. It is under way in the
    /// record from here on.
    #[inline(always)]
    pub(crate) fn asks_again<const N: usize>(&self, question: Question<N>) -> Option<RepeatedCall> {
        let asked = &self.asked;
        if asked.end.get() != self.cursor.get() {
            return None;
        }
        let (number, run) = asked.about(question)?;
        if !self.tells_nothing(question.kind, run.result.get()) {
            return None;
        }
        if run.counts.get().is_null() {
            if run.behind.get() != self.cursor.get() {
                return None;
            }
            run.counts.set(self.put_count(question.function, question.kind));
            asked.end.set(self.cursor.get());
        }
        let Counts { calls, begin, end, .. } = run.counts()?;
        let is_timed = question.kind == Repeat::Poll || calls.load(Relaxed).is_multiple_of(TIMED_ONE_IN);
        // Nothing is ordered by it.
        begin.store(if is_timed { clock::exit() } else { end.load(Relaxed) + 1 }, Relaxed);
        Some(RepeatedCall { number: number as u8, is_timed })
    }

    /// Whether a call goes on with a run: its thread has made no other since it began, when so many were
    /// recorded. A signal handler may have.
    #[inline(always)]
    fn goes_on(&self, begun: u32) -> bool {
        self.sequence.get() == begun && self.asked.end.get() == self.cursor.get()
    }

    /// Counts a call that began so, if it goes on as the run does; `end`: of one that is timed.
    #[inline(always)]
    pub(crate) fn counts<const N: usize>(
        &self,
        question: Question<N>,
        (again, begun): (RepeatedCall, u32),
        result: u32,
        end: u64,
    ) -> bool {
        let run = &self.asked.runs[again.number as usize % IN_TURN];
        if !self.goes_on(begun)
            || run.result.get() != result
            || !self.tells_nothing(question.kind, result)
            || !run.is_answered(question)
        {
            return false;
        }
        let Some(Counts { calls, time, begin, end: last }) = run.counts() else { return false };
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
        run.has_repeated.set(true);
        true
    }

    /// The entry of a call that began so and came out otherwise, now that it has returned: its number, and
    /// when it returned; `None` if it is not recorded.
    #[cold]
    pub(crate) fn enters_late<const N: usize>(
        &self,
        question: Question<N>,
        (again, begun): (RepeatedCall, u32),
        flags: u8,
        end: u64,
    ) -> Option<(u32, u64)> {
        let number = again.number as usize % IN_TURN;
        // Of a chunk that is gone since no run is left.
        let counts = self.asked.is_running(number).then(|| self.asked.runs[number].counts()).flatten();
        let now = clock::exit();
        let mut times = (now, now);
        if let Some(Counts { calls, time, begin, end: last }) = counts {
            let last = last.load(Relaxed);
            // It is not under way any more.
            let began = begin.swap(last, Relaxed);
            // With calls of a signal handler behind it, which may have been made since it returned, it cannot
            // begin before them.
            if self.goes_on(begun) {
                // As long as the others, if nobody looked, and behind what has a record.
                let each = time.load(Relaxed) / calls.load(Relaxed).div_ceil(TIMED_ONE_IN).max(1);
                let guess = now.saturating_sub(each).max(last).max(self.asked.returned.get());
                times = if again.is_timed { (began, end) } else { (guess, now) };
            }
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
