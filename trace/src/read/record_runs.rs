//! What the records of a chunk say without what came before it, so that any thread can find it out ahead of
//! the one that puts the chunks of a thread together.
//!
//! A stretch is a run of entries and returns about which there is nothing to be told. Records between two of
//! them (counts of repeated calls, descriptions, and all that is odd) are read one by one.

use crate::base::bytes::{u32_at, u64_at};
use crate::file::call_table::Packed;
use crate::file::lookup;
use crate::file::record;
use crate::read::reader::Record;
use std::ops::Range;

/// With fewer records it is no quicker.
const SHORTEST: u32 = 6;

/// Bytes of a call with few arguments, entry and return.
const SHORT_CALL: usize = 80;

/// At most as many calls of a stretch have not returned, and as many returns are those of calls before it: in
/// a forged chunk all may be such.
const PENDING: u32 = 32;

pub(crate) struct Stretch {
    /// Where its records lie among those of the chunk.
    bytes: Range<u32>,
    /// The number of its first call on the thread, or of the next if it has none.
    pub(crate) first: u32,
    calls: Range<u32>,
    open: Range<u32>,
    before: Range<u32>,
    /// Stamps of its first and its last entry, if it has one.
    earliest: u64,
    latest: u64,
    pub(crate) last: Last,
}

/// The last record of a stretch.
#[derive(Clone, Copy)]
pub(crate) enum Last {
    Entry,
    /// The return of its call at this place, and the time stamp.
    Return(u32, u64),
    /// The return of the call with this number, made before the stretch, and the time stamp.
    ReturnBefore(u32, u64),
}

/// A call that did not return within its stretch: its number on the thread, and its place among the stretch's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unreturned {
    pub(crate) call: u32,
    pub(crate) place: u32,
}

/// The return of a call that was made before the stretch: the call's number, and where it stands in the chunk.
#[derive(Clone, Copy)]
pub(crate) struct ReturnBefore {
    pub(crate) call: u32,
    pub(crate) at: u32,
}

#[derive(Default)]
pub(crate) struct Stretches {
    all: Vec<Stretch>,
    calls: Vec<Packed>,
    open: Vec<Unreturned>,
    before: Vec<ReturnBefore>,
}

impl Stretch {
    pub(crate) fn begin(&self) -> u64 {
        self.bytes.start.into()
    }

    pub(crate) fn end(&self) -> u64 {
        self.bytes.end.into()
    }

    /// Stamps of its first and its last entry.
    pub(crate) fn entered(&self) -> Option<(u64, u64)> {
        (!self.calls.is_empty()).then_some((self.earliest, self.latest))
    }
}

impl Stretches {
    /// Of the records of a chunk, whose first call has this number. `words`: how many arguments the entry of
    /// each function has.
    pub(crate) fn of(bytes: &[u8], first: u32, words: &[usize]) -> Stretches {
        let bytes = &bytes[..bytes.len().min(Packed::REACH as usize)];
        let mut found = Stretches::default();
        // It grows as it is filled where there is no room.
        let _has_room = found.calls.try_reserve(bytes.len() / SHORT_CALL);
        let (mut at, mut next) = (0, first);
        while let Some(record) = Record::first_of(&bytes[at..]) {
            if let Some(end) = found.stretch(bytes, at, &mut next, words) {
                at = end;
                continue;
            }
            at += record.bytes.len();
            if record.head.kind == record::ENTRY {
                match next.checked_add(1) {
                    Some(behind) if has_words(&record, words) => next = behind,
                    // What follows is left out, or has numbers that begin again and is read one by one.
                    _ => break,
                }
            }
        }
        found
    }

    /// What begins at this record, unless it is too short: where it ends.
    fn stretch(&mut self, bytes: &[u8], start: usize, next: &mut u32, words: &[usize]) -> Option<usize> {
        let mut stretch = self.begun(start, *next);
        let (mut at, mut records) = (start, 0);
        while let Some(record) = Record::first_of(&bytes[at..]) {
            let is_plain = record.bytes.len() as u64 <= lookup::CROWDED
                && match record.head.kind {
                    record::ENTRY => has_words(&record, words) && self.enters(&mut stretch, at, &record, next),
                    record::RETURN => self.returns(&mut stretch, at, &record),
                    _ => false,
                };
            if !is_plain {
                break;
            }
            at += record.bytes.len();
            records += 1;
        }
        if records < SHORTEST {
            self.calls.truncate(stretch.calls.start as usize);
            self.open.truncate(stretch.open.start as usize);
            self.before.truncate(stretch.before.start as usize);
            *next = stretch.first;
            return None;
        }
        let end = self.begun(at, *next);
        stretch.bytes.end = end.bytes.start;
        stretch.calls.end = end.calls.start;
        stretch.open.end = end.open.start;
        stretch.before.end = end.before.start;
        self.all.push(stretch);
        Some(at)
    }

    /// A stretch that begins here, with nothing in it. A chunk is cut where these numbers would not suffice.
    fn begun(&self, at: usize, first: u32) -> Stretch {
        let from = |at: usize| at as u32..at as u32;
        Stretch {
            bytes: from(at),
            first,
            calls: from(self.calls.len()),
            open: from(self.open.len()),
            before: from(self.before.len()),
            earliest: 0,
            latest: 0,
            last: Last::Entry,
        }
    }

    /// Whether the call belongs to the stretch.
    #[inline(always)]
    fn enters(&mut self, stretch: &mut Stretch, at: usize, record: &Record, next: &mut u32) -> bool {
        let (stamp, place) = (u64_at(record.bytes, 8), self.calls.len() as u32 - stretch.calls.start);
        let is_odd = record.head.flags & record::INNER != 0 || stamp < stretch.latest;
        let has_room = self.open.len() as u32 - stretch.open.start < PENDING;
        let Some(behind) = next.checked_add(1).filter(|_| !is_odd && has_room) else { return false };
        self.open.push(Unreturned { call: *next, place });
        self.calls.push(Packed::entry(at as u64));
        *next = behind;
        if place == 0 {
            stretch.earliest = stamp;
        }
        stretch.latest = stamp;
        stretch.last = Last::Entry;
        true
    }

    /// Whether the return belongs to the stretch.
    #[inline(always)]
    fn returns(&mut self, stretch: &mut Stretch, at: usize, record: &Record) -> bool {
        let (call, stamp) = (u32_at(record.bytes, 16), u64_at(record.bytes, 8));
        if let Some(place) = self.leave(stretch.open.start as usize, call) {
            self.calls[(stretch.calls.start + place) as usize].set_return(at as u64);
            stretch.last = Last::Return(place, stamp);
            return true;
        }
        let before = &self.before[stretch.before.start as usize..];
        if call >= stretch.first || before.len() >= PENDING as usize || before.iter().any(|of| of.call == call) {
            return false;
        }
        self.before.push(ReturnBefore { call, at: at as u32 });
        stretch.last = Last::ReturnBefore(call, stamp);
        true
    }

    /// The place of a call that returns, among those that are open from there on. Nearly always it is the last.
    #[inline(always)]
    fn leave(&mut self, from: usize, call: u32) -> Option<u32> {
        match self.open.last() {
            Some(last) if last.call == call && self.open.len() > from => self.open.pop().map(|open| open.place),
            _ => self.leave_beneath(from, call),
        }
    }

    #[cold]
    fn leave_beneath(&mut self, from: usize, call: u32) -> Option<u32> {
        let at = self.open[from..].binary_search_by_key(&call, |open| open.call).ok()?;
        Some(self.open.remove(from + at).place)
    }

    /// In the order of their places.
    pub(crate) fn all(&self) -> &[Stretch] {
        &self.all
    }

    /// Its calls, as they are kept.
    pub(crate) fn calls(&self, of: &Stretch) -> &[Packed] {
        &self.calls[of.calls.start as usize..of.calls.end as usize]
    }

    /// Those without a return.
    pub(crate) fn open(&self, of: &Stretch) -> &[Unreturned] {
        &self.open[of.open.start as usize..of.open.end as usize]
    }

    pub(crate) fn returns_before(&self, of: &Stretch) -> &[ReturnBefore] {
        &self.before[of.before.start as usize..of.before.end as usize]
    }
}

fn has_words(entry: &Record, words: &[usize]) -> bool {
    let words = words.get(usize::from(entry.head.function)).copied().unwrap_or(0);
    entry.bytes.len() >= record::ENTRY_SIZE + 8 * words
}
