//! Access to calls by index: each is read from the file on request.

use crate::base::bytes::{u32_at, u64_at};
use crate::base::prefetch::prefetch;
use crate::file::call_table::{Located, Standing};
use crate::file::record;
use crate::file::repeats::Run;
use crate::read::call::{Call, Content, Image};
use crate::read::reader::Trace;

/// Calls between one that is read and the one that is asked for; of that the first bytes, in lines of the
/// processor's cache.
const AHEAD: usize = 8;
const READ: usize = 192;
const LINE: usize = 64;

/// All calls by entry time. A named type, so that walks can store it by value: a call that is passed on is
/// copied.
pub struct Each<'a> {
    trace: &'a Trace,
    next: usize,
    /// Of the calls that come next where they stand, by their numbers.
    expected: [Standing; AHEAD],
}

impl<'a> Iterator for Each<'a> {
    type Item = Call<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Call<'a>> {
        let number = self.next;
        if number >= self.trace.calls.len() {
            return None;
        }
        self.next += 1;
        let behind = self.trace.expect(number + AHEAD).unwrap_or_default();
        let standing = std::mem::replace(&mut self.expected[number % AHEAD], behind);
        let found = self.trace.read(&self.trace.calls.located(standing), number as u64);
        assert!(found.is_some(), "within the index");
        found
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.trace.calls.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Each<'_> {}

impl Trace {
    /// All calls by entry time.
    pub fn calls(&self) -> Each<'_> {
        let expected = std::array::from_fn(|number| self.expect(number).unwrap_or_default());
        Each { trace: self, next: 0, expected }
    }

    /// The call with this number is read soon.
    #[inline]
    fn expect(&self, number: usize) -> Option<Standing> {
        let standing = self.calls.standing(number)?;
        if let Some(all) = self.plain() {
            let entry = self.calls.entry_of(standing) as usize;
            (0..READ).step_by(LINE).for_each(|byte| prefetch(all, entry + byte));
        }
        Some(standing)
    }

    /// Reads the call with this number.
    #[inline]
    pub fn call(&self, number: u64) -> Option<Call<'_>> {
        self.read(&self.calls.get(number as usize)?, number)
    }

    /// The id of the function of a call, of which no more is read.
    pub fn function_id(&self, number: u64) -> Option<u16> {
        let at = self.calls.get(number as usize)?;
        Some(self.record(at.entry)?.head.function)
    }

    /// The number of the first call that begins at this time or later; if there is none, how many calls there
    /// are.
    pub fn call_from(&self, time: u64) -> u64 {
        self.calls.partition_point(|at| self.begin_of(at) < time) as u64
    }

    /// The same, by nanoseconds since the start of the trace.
    pub fn call_from_time(&self, nanoseconds: u64) -> u64 {
        let is_before = |at: &Located| u64::try_from(self.nanoseconds(self.begin_of(at))).unwrap_or(0) < nanoseconds;
        self.calls.partition_point(is_before) as u64
    }

    /// What the entry at this offset says when it was.
    #[inline]
    pub(crate) fn stamp(&self, entry: u64) -> u64 {
        let stamp = entry + record::HEAD as u64;
        let held = match self.plain() {
            Some(all) => all.get(stamp as usize..stamp as usize + 8),
            None => self.bytes_from(stamp, stamp + 8),
        };
        held.map_or(0, |stamp| u64_at(stamp, 0))
    }

    pub(crate) fn begin_of(&self, at: &Located) -> u64 {
        at.begin.unwrap_or_else(|| self.stamp(at.entry))
    }

    #[inline]
    pub(crate) fn read(&self, at: &Located, number: u64) -> Option<Call<'_>> {
        let entry = self.record(at.entry)?;
        let id = entry.head.function;
        let words = self.preamble.functions.get(id as usize).map_or(0, |(_, words)| *words as usize * 8);
        let begin = at.begin.unwrap_or_else(|| u64_at(entry.bytes, 8));
        let body = &entry.bytes[record::ENTRY_SIZE..];
        let (words, at_entry) = body.split_at_checked(words)?;
        let ret = if at.ret == 0 { None } else { self.record(at.ret) };
        Some(Call {
            trace: self,
            number,
            thread: at.thread,
            sequence: at.sequence,
            begin,
            end: ret.as_ref().map(|r| u64_at(r.bytes, 8).max(begin)),
            result: ret.as_ref().map(|r| u32_at(r.bytes, 20)),
            repeats: match at.run {
                Run::None => None,
                run => self.repeats_behind(at, begin, run),
            },
            inner: at.inner,
            id,
            words,
            at_entry,
            at_return: ret.map_or(&[], |r| &r.bytes[record::RETURN_SIZE..]),
            lookup: self.crowded.get(&at.entry),
        })
    }

    pub(crate) fn call_of(&self, thread: u32, sequence: u32) -> Option<Call<'_>> {
        self.call(self.number_of(thread, sequence)?)
    }

    /// The bytes of an image, if the file has them.
    pub fn bytes<'a>(&'a self, image: &Image<'a>) -> Option<&'a [u8]> {
        match image.content {
            Content::Bytes(bytes) => Some(bytes),
            Content::Blob(hash) => self.blob(hash),
            _ => None,
        }
    }
}
