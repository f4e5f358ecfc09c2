//! From the index to calls: each is read from the file when it is asked for.

use crate::call::{Call, Content, Image};
use crate::located::Located;
use crate::reader::Trace;
use crate::record;
use crate::segment::{u32_at, u64_at};

impl Trace {
    /// All calls by entry time.
    pub fn calls(&self) -> impl ExactSizeIterator<Item = Call<'_>> {
        (0..self.calls.len()).map(|n| self.call(n as u64).expect("within the index"))
    }

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
    pub(crate) fn stamp(&self, entry: u64) -> u64 {
        let stamp = entry + record::HEAD as u64;
        self.held(stamp, stamp + 8).map_or(0, |stamp| u64_at(stamp, 0))
    }

    pub(crate) fn begin_of(&self, at: &Located) -> u64 {
        at.begin.unwrap_or_else(|| self.stamp(at.entry))
    }

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
            repeats: self.repeats_behind(at.ret, begin, at.run),
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
