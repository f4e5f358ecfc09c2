//! The places of a trace's calls in the file: 12 bytes per call, whatever their times and threads.
//!
//! ```text
//! packed   u64 a call, by thread and then as the thread made them:
//!          entry 32 | return 29 | inner 1 | run 2
//!          the entry in words of 8 bytes from the beginning of its chunk's records, the return from the entry on
//! order    u32 a call, by entry time: its place in `packed`
//! ```
//!
//! Thread and number within the thread follow from the chunk, and the time is in the entry. A value that does
//! not fit, often that of a return in another chunk, is stored apart.

use crate::base::large_pages;
use crate::base::parallel::both;
use crate::file::repeats::Run;
use foldhash::HashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

/// One call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Located {
    /// If it is not what the entry says.
    pub(crate) begin: Option<u64>,
    pub(crate) thread: u32,
    pub(crate) sequence: u32,
    /// Offset of the entry record.
    pub(crate) entry: u64,
    /// Made inside another call of its thread, which returned afterwards.
    pub(crate) inner: bool,
    /// Offset of the return record; 0 if there is none.
    pub(crate) ret: u64,
    pub(crate) run: Run,
}

/// The place of a call, and the chunk that it lies in.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Standing {
    place: u32,
    chunk: u32,
}

/// More than one trace has; and more bytes than a chunk.
pub(crate) const MOST: usize = u32::MAX as usize;
const LONGEST_CHUNK: u64 = 8 << 32;

/// Bytes of a call with one argument, entry and return.
const SHORTEST: u64 = 48;

const RETURN: u32 = 32;
const INNER: u64 = 1 << 61;
const RUN: u32 = 62;
/// In the place of the distance between entry and return.
const FAR: u64 = (1 << 29) - 1;

/// A call in 8 bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packed(u64);

impl Packed {
    /// Of a call whose entry stands there in its chunk.
    pub(crate) fn entry(at: u64) -> Packed {
        Packed((at / 8) & u64::from(u32::MAX))
    }

    /// Where its entry stands in its chunk.
    fn entry_offset(self) -> u64 {
        (self.0 & u64::from(u32::MAX)) * 8
    }

    /// Words from its entry to its return; 0 if there is none.
    fn distance(self) -> u64 {
        self.0 >> RETURN & FAR
    }

    fn set_distance(&mut self, words: u64) {
        self.0 = self.0 & !(FAR << RETURN) | words << RETURN;
    }
}

/// A chunk with calls.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    /// Place of its first call.
    place: u32,
    thread: u32,
    /// Number of its first call on its thread.
    sequence: u32,
    /// Offset of its records.
    start: u64,
}

/// Places that the search for their chunks begins at, one in as many.
const STEP: usize = 1 << 10;

/// Calls of a thread between one that is put in order and the one that is asked for.
const AHEAD: usize = 3;

/// Fewer calls are not worth a thread.
const MANY: usize = 1 << 16;

#[derive(Default)]
pub(crate) struct Calls {
    packed: Vec<Packed>,
    chunks: Vec<Chunk>,
    /// Of every [`STEP`]th place its chunk. Made when all are there.
    steps: Vec<u32>,
    /// Empty as long as it is that of `packed`.
    order: Vec<u32>,
    /// By place: returns that are not a short way behind their entries.
    far: HashMap<u32, u64>,
    /// By place: when calls count as begun whose entries say otherwise.
    begun: HashMap<u32, u64>,
}

impl Calls {
    /// None yet, of chunks with as many bytes.
    pub(crate) fn with_room_for(bytes: u64) -> Calls {
        let most = (bytes / SHORTEST).min(MOST as u64) as usize;
        Calls { packed: large_pages::list(most), ..Calls::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.packed.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// The calls pushed next are of this chunk, whose records begin at `start`.
    pub(crate) fn begin_chunk(&mut self, thread: u32, sequence: u32, start: u64) {
        let place = self.packed.len() as u32;
        // One without calls counts for nothing.
        while self.chunks.pop_if(|last| last.place == place).is_some() {}
        self.chunks.push(Chunk { place, thread, sequence, start });
    }

    /// The next call of the chunk; its place. None if there is no room for more.
    pub(crate) fn push(&mut self, entry: u64) -> Option<usize> {
        let place = self.packed.len();
        let start = self.chunks.last()?.start;
        let at = entry.checked_sub(start).filter(|at| *at < LONGEST_CHUNK && place < MOST)?;
        self.packed.push(Packed::entry(at));
        Some(place)
    }

    pub(crate) fn set_begin(&mut self, place: usize, begin: u64) {
        self.begun.insert(place as u32, begin);
    }

    pub(crate) fn set_return(&mut self, place: usize, ret: u64) {
        let distance = ret.checked_sub(self.entry(place)).map(|bytes| bytes / 8);
        let distance = distance.filter(|words| (1..FAR).contains(words)).unwrap_or_else(|| {
            self.far.insert(place as u32, ret);
            FAR
        });
        self.packed[place].set_distance(distance);
    }

    pub(crate) fn set_inner(&mut self, place: usize) {
        self.packed[place].0 |= INNER;
    }

    pub(crate) fn set_run(&mut self, place: usize, run: Run) {
        let Packed(packed) = &mut self.packed[place];
        *packed = *packed & !(0b11 << RUN) | (run as u64) << RUN;
    }

    /// Puts them into the order of their entries; of those of one moment, of their threads. `stamp`: the time
    /// that the entry at an offset tells, of which `expect` hears some time before.
    pub(crate) fn order(&mut self, stamp: impl Fn(u64) -> u64 + Sync, expect: impl Fn(u64) + Sync) {
        self.steps = (0..self.packed.len()).step_by(STEP).map(|place| self.chunk_of(place) as u32).collect();
        let begin_in = |chunk: usize, place: u32| match self.begun.get(&place) {
            Some(begin) => *begin,
            None => stamp(self.entry_in(chunk, place as usize)),
        };
        let begin = |place: u32| begin_in(self.chunk_of(place as usize), place);
        // A thread's calls are in order as they are.
        let of_threads = self.chunks.chunk_by(|a, b| a.thread == b.thread).map(|thread| self.places_of(thread));
        let of_threads: Vec<Range<u32>> = of_threads.filter(|places| !places.is_empty()).collect();
        let longest = of_threads.iter().max_by_key(|places| places.len());
        let Some(longest) = longest.filter(|_| of_threads.len() > 1) else { return };
        // Each half by a thread.
        let middle = begin(longest.start + longest.len() as u32 / 2);
        let cut = |places: &Range<u32>| {
            let (mut from, mut to) = (places.start, places.end);
            while from < to {
                let half = from + (to - from) / 2;
                if begin(half) < middle { from = half + 1 } else { to = half }
            }
            (places.start..from, from..places.end)
        };
        let (before, behind): (Vec<_>, Vec<_>) = of_threads.iter().map(cut).unzip();
        let mut order = vec![0; self.packed.len()];
        large_pages::prefer(order.as_ptr(), order.len());
        if order.len() < MANY {
            self.merge(&of_threads, begin_in, &expect, &mut order);
            self.order = order;
            return;
        }
        let (first, second) = order.split_at_mut(before.iter().map(ExactSizeIterator::len).sum());
        let first = || self.merge(&before, begin_in, &expect, first);
        both(first, || self.merge(&behind, begin_in, &expect, second));
        self.order = order;
    }

    /// Places of several threads, each in order, by when their calls begin.
    fn merge(
        &self,
        of_threads: &[Range<u32>],
        begin: impl Fn(usize, u32) -> u64,
        expect: impl Fn(u64),
        into: &mut [u32],
    ) {
        let there = of_threads.iter().filter(|places| !places.is_empty());
        let mut lanes: Vec<(Range<u32>, usize)> =
            there.map(|places| (places.clone(), self.chunk_of(places.start as usize))).collect();
        let first = |(at, (places, chunk)): (usize, &(Range<u32>, usize))| Reverse((begin(*chunk, places.start), at));
        let mut heads: BinaryHeap<Reverse<(u64, usize)>> = lanes.iter().enumerate().map(first).collect();
        for next in into {
            let Some(mut head) = heads.peek_mut() else { return };
            let Reverse((time, at)) = &mut *head;
            let (places, chunk) = &mut lanes[*at];
            *next = places.start;
            places.start += 1;
            if places.start >= places.end {
                PeekMut::pop(head);
                continue;
            }
            while self.chunks.get(*chunk + 1).is_some_and(|other| other.place <= places.start) {
                *chunk += 1;
            }
            *time = begin(*chunk, places.start);
            // It may be another chunk's, whose entry is elsewhere: no matter.
            if places.len() > AHEAD {
                expect(self.entry_in(*chunk, places.start as usize + AHEAD));
            }
        }
    }

    /// Of chunks that follow each other.
    fn places_of(&self, chunks: &[Chunk]) -> Range<u32> {
        let [first, .., last] = chunks else {
            return chunks.first().map_or(0..0, |only| only.place..self.end_of(only));
        };
        first.place..self.end_of(last)
    }

    fn end_of(&self, chunk: &Chunk) -> u32 {
        let behind = self.chunks.partition_point(|other| other.place <= chunk.place);
        self.chunks.get(behind).map_or(self.packed.len() as u32, |next| next.place)
    }

    #[inline]
    fn chunk_of(&self, place: usize) -> usize {
        let step = place / STEP;
        match (self.steps.get(step), self.steps.get(step + 1)) {
            // Most steps are within one chunk.
            (Some(from), Some(to)) if from == to => *from as usize,
            (from, to) => self.chunk_between(place, from.copied(), to.copied()),
        }
    }

    /// `from`: the chunk of a place before; `to`: of one behind.
    fn chunk_between(&self, place: usize, from: Option<u32>, to: Option<u32>) -> usize {
        let (from, to) = match from {
            Some(from) => (from as usize, to.map_or(self.chunks.len(), |to| to as usize + 1)),
            // While they are read most are of the latest.
            None if self.chunks.last().is_some_and(|last| last.place as usize <= place) => {
                return self.chunks.len() - 1;
            }
            None => (0, self.chunks.len()),
        };
        from + self.chunks[from..to].partition_point(|chunk| chunk.place as usize <= place) - 1
    }

    /// Offset of the entry of the call at this place.
    pub(crate) fn entry(&self, place: usize) -> u64 {
        self.entry_in(self.chunk_of(place), place)
    }

    fn entry_in(&self, chunk: usize, place: usize) -> u64 {
        self.chunks[chunk].start + self.packed[place].entry_offset()
    }

    /// Where the call with this number stands.
    #[inline]
    pub(crate) fn standing(&self, number: usize) -> Option<Standing> {
        self.place(number).map(|place| self.standing_at(place))
    }

    #[inline]
    fn standing_at(&self, place: usize) -> Standing {
        Standing { place: place as u32, chunk: self.chunk_of(place) as u32 }
    }

    /// Offset of the entry of the call that stands there.
    #[inline]
    pub(crate) fn entry_of(&self, Standing { place, chunk }: Standing) -> u64 {
        self.entry_in(chunk as usize, place as usize)
    }

    /// The call at this place.
    #[inline]
    pub(crate) fn locate(&self, place: usize) -> Located {
        self.located(self.standing_at(place))
    }

    #[inline]
    pub(crate) fn located(&self, Standing { place, chunk }: Standing) -> Located {
        let (packed, chunk) = (self.packed[place as usize], &self.chunks[chunk as usize]);
        let entry = chunk.start + packed.entry_offset();
        let ret = match packed.distance() {
            0 => 0,
            FAR => self.far.get(&place).copied().unwrap_or(0),
            distance => entry + distance * 8,
        };
        Located {
            begin: if self.begun.is_empty() { None } else { self.begun.get(&place).copied() },
            thread: chunk.thread,
            sequence: chunk.sequence.wrapping_add(place - chunk.place),
            entry,
            inner: packed.0 & INNER != 0,
            ret,
            run: Run::from_bits(packed.0 >> RUN),
        }
    }

    #[inline]
    fn place(&self, number: usize) -> Option<usize> {
        if self.order.is_empty() {
            return (number < self.packed.len()).then_some(number);
        }
        self.order.get(number).map(|place| *place as usize)
    }

    /// The call with this number, by entry time.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<Located> {
        self.place(number).map(|place| self.locate(place))
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Located> {
        (0..self.len()).map(|number| self.get(number).expect("within them"))
    }

    /// The number of the first call for which this does not hold, if it holds for those before it.
    pub(crate) fn partition_point(&self, holds: impl Fn(&Located) -> bool) -> usize {
        self.first(|place| !holds(&self.locate(place)))
    }

    /// The number of the first call of which `is_behind` holds, given its place, as of all that follow.
    fn first(&self, is_behind: impl Fn(usize) -> bool) -> usize {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from + (to - from) / 2;
            match self.place(middle).is_some_and(&is_behind) {
                true => to = middle,
                false => from = middle + 1,
            }
        }
        from
    }

    /// The number of a call, by its thread and its number there. `stamp`: as for [`Calls::order`].
    pub(crate) fn number_of(&self, thread: u32, sequence: u32, stamp: impl Fn(u64) -> u64) -> Option<usize> {
        let of_thread = self.chunks.partition_point(|chunk| chunk.thread < thread);
        let all = &self.chunks[of_thread..self.chunks.partition_point(|chunk| chunk.thread <= thread)];
        let chunk = all.get(all.partition_point(|chunk| chunk.sequence <= sequence).checked_sub(1)?)?;
        let place = chunk.place.checked_add(sequence - chunk.sequence).filter(|place| *place < self.end_of(chunk))?;
        let key = |place: usize| {
            let at = self.locate(place);
            (at.begin.unwrap_or_else(|| stamp(at.entry)), place)
        };
        let of = key(place as usize);
        Some(self.first(|other| key(other) >= of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each chunk its thread, its first number there, where it is, and the times of its calls.
    fn calls(chunks: &[(u32, u32, u64, &[u64])]) -> (Calls, HashMap<u64, u64>) {
        let (mut calls, mut stamps) = (Calls::default(), HashMap::default());
        for (thread, sequence, start, times) in chunks {
            calls.begin_chunk(*thread, *sequence, *start);
            for (entry, time) in (*start..).step_by(24).zip(*times) {
                calls.push(entry).expect("room");
                stamps.insert(entry, *time);
            }
        }
        calls.order(|entry| stamps[&entry], |_| ());
        (calls, stamps)
    }

    #[test]
    fn they_are_in_order_of_time_and_found_again() {
        let (calls, stamps) = calls(&[
            (0, 0, 4160, &[1, 5, 5, 9]),
            (0, 4, 90_000, &[]),
            (0, 7, 50_000, &[9, 30]),
            (2, 0, 20_000, &[0, 5, 31]),
            (u32::MAX, 3, 30_000, &[5]),
        ]);
        let found: Vec<_> = calls.iter().map(|at| (stamps[&at.entry], at.thread, at.sequence)).collect();
        let expected = [
            (0, 2, 0),
            (1, 0, 0),
            (5, 0, 1),
            (5, 0, 2),
            (5, 2, 1),
            (5, u32::MAX, 3),
            (9, 0, 3),
            (9, 0, 7),
            (30, 0, 8),
            (31, 2, 2),
        ];
        assert_eq!(found, expected);
        for (number, (_, thread, sequence)) in expected.into_iter().enumerate() {
            assert_eq!(calls.number_of(thread, sequence, |entry| stamps[&entry]), Some(number));
        }
        for (thread, sequence) in [(0, 4), (0, 9), (1, 0), (2, 3), (u32::MAX, 2)] {
            assert_eq!(calls.number_of(thread, sequence, |entry| stamps[&entry]), None);
        }
        assert_eq!(calls.partition_point(|at| stamps[&at.entry] < 9), 6);
        assert!(calls.get(10).is_none());
    }

    #[test]
    fn what_does_not_fit_is_kept_apart() {
        let mut calls = Calls::default();
        calls.begin_chunk(1, 10, 1 << 40);
        for entry in [0, 48, (8 << 32) - 8] {
            calls.push((1 << 40) + entry).expect("room");
        }
        assert!(calls.push((1 << 40) + (8 << 32)).is_none(), "behind the longest chunk");
        assert!(calls.push((1 << 40) - 8).is_none(), "before its chunk");
        calls.set_return(0, (1 << 40) + 24);
        calls.set_return(1, 4160);
        calls.set_return(2, 1 << 41);
        calls.set_inner(1);
        calls.set_run(1, Run::Last);
        calls.set_run(1, Run::Counted);
        calls.set_begin(2, 77);
        calls.order(|entry| entry.min(76), |_| ());
        let at = |number| calls.get(number).expect("a call");
        let seen = |number| (at(number).ret, at(number).inner, at(number).run, at(number).begin);
        assert_eq!(seen(0), ((1 << 40) + 24, false, Run::None, None));
        assert_eq!(seen(1), (4160, true, Run::Counted, None));
        assert_eq!(seen(2), (1 << 41, false, Run::None, Some(77)));
        assert_eq!(at(2).entry, (1 << 40) + (8 << 32) - 8);
    }

    #[test]
    fn the_chunk_of_a_call_is_found_among_many() {
        let (mut calls, mut place) = (Calls::default(), 0);
        let all: Vec<usize> = (0..300).map(|n| n * 37 % 100).collect();
        for (n, count) in all.iter().enumerate() {
            calls.begin_chunk(n as u32 / 3, 0, n as u64 * 4096);
            (0..*count).for_each(|call| place = calls.push(n as u64 * 4096 + call as u64 * 8).expect("room"));
        }
        calls.order(|_| 0, |_| ());
        assert!(place > 2 * STEP);
        let mut at = (0..=place).map(|place| calls.locate(place));
        for (n, count) in all.iter().enumerate() {
            for call in 0..*count {
                let found = at.next().expect("a call");
                let expected = (n as u32 / 3, call as u32, n as u64 * 4096 + call as u64 * 8);
                assert_eq!((found.thread, found.sequence, found.entry), expected);
            }
        }
    }
}
