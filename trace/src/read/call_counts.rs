//! The number of program calls that a call of the file stands for, and their total duration.

use crate::api::roles::Class;
use crate::file::call_table::Located;
use crate::file::record::{self, ACROSS};
use crate::file::repeats::{Repeats, Run};
use crate::file::segment::HEADER;
use crate::read::call::Call;
use crate::read::reader::Trace;
use std::ops::Range;

/// Each call has its entry, its return and a count; some returns are of calls before.
const MOST_RECORDS: u32 = 4 * ACROSS;

impl Call<'_> {
    /// How many calls it stands for.
    pub fn count(&self) -> u64 {
        self.repeats.map_or(1, |repeats| repeats.calls.saturating_add(1))
    }

    /// Clock ticks at the return of the last of them, or at the next call of its thread that is recorded by
    /// itself: of what goes on behind that, nobody knows where it stands. None if the call never returned.
    pub fn last_end(&self) -> Option<u64> {
        self.repeats.map(|repeats| repeats.in_turn.unwrap_or(repeats.end)).or(self.end)
    }

    /// Clock ticks at the return of the last of them, which may come behind later calls of its thread. None if
    /// the call never returned.
    pub fn last_return(&self) -> Option<u64> {
        self.repeats.map(|repeats| repeats.end).or(self.end)
    }

    /// When the call that its thread is inside of was entered: this one, or one more of its run. None if that
    /// has returned, or was left by an exception or a longjmp, as the thread's next call shows.
    pub fn inside_since(&self) -> Option<u64> {
        match self.end {
            None => (!self.was_left()).then_some(self.begin),
            Some(_) => self.repeats?.under_way,
        }
    }

    fn was_left(&self) -> bool {
        let next = self.trace.number_of(self.thread, self.sequence.wrapping_add(1));
        next.and_then(|number| self.trace.call(number)).is_some_and(|next| !next.inner || self.inner)
    }

    /// Nanoseconds inside the calls behind the first.
    pub fn repeats_took(&self) -> i64 {
        self.repeats.map_or(0, |repeats| {
            let took = |ticks: u64| self.trace.nanoseconds(ticks);
            took(repeats.end).saturating_sub(took(repeats.end - repeats.time)).max(0)
        })
    }
}

impl Trace {
    /// Calls that the program made, as far as they were recorded: with those that others stand for.
    pub fn calls_made(&self) -> u64 {
        (self.calls.len() as u64).saturating_add(self.repeated)
    }

    /// Those of them that others stand for.
    pub fn calls_repeated(&self) -> u64 {
        self.repeated
    }

    /// What stands directly behind the return of a call that stands for others.
    pub(crate) fn repeats_behind(&self, call: &Located, begin: u64, run: Run) -> Option<Repeats> {
        let found = self.record(call.ret)?;
        let end = crate::base::bytes::u64_at(found.bytes, 8).max(begin);
        let (at, committed) = (call.ret + found.bytes.len() as u64, self.committed_around(call.ret));
        let counted = self.record_within(at, committed).filter(|next| next.head.kind == record::REPEATED)?;
        let repeated: record::Repeated = crate::read::index::body_of(&counted.bytes[record::HEAD..])?;
        let last = repeated.end.max(end);
        let (mut repeats, _) = Repeats::decode(counted.head, &repeated, end);
        let behind = at + counted.bytes.len() as u64;
        let is_under_way = |_: &u64| run == Run::Last || self.goes_on_from(behind..committed, call);
        let under_way = repeats.under_way.filter(is_under_way);
        let next =
            self.record_within(behind, committed).filter(|next| next.head.kind == record::ENTRY && run != Run::Last);
        let next =
            next.map(|entry| (crate::base::bytes::u64_at(entry.bytes, 8), self.ends_no_run(entry.head.function)));
        if let Some((next, false)) = next
            && last <= next
        {
            // How long those took that were not timed is a guess.
            repeats.end = repeats.end.min(next);
            repeats.time = repeats.time.min(repeats.end - end);
        }
        let in_turn = next.map(|(next, _)| next).filter(|begin| (end..repeats.end).contains(begin));
        (repeats.calls > 0 || under_way.is_some()).then_some(Repeats { in_turn, under_way, ..repeats })
    }

    /// Whether queries may go on being counted across a call of this function.
    fn ends_no_run(&self, function: u16) -> bool {
        self.function(function).is_some_and(|function| matches!(function.class, Class::launch | Class::query))
    }

    /// Where the committed records of the chunk end that this offset is in.
    fn committed_around(&self, at: u64) -> u64 {
        let behind = self.segments.partition_point(|(offset, _)| *offset <= at);
        behind.checked_sub(1).map_or(at, |index| {
            let (offset, header) = self.segments[index];
            let end = (offset + HEADER as u64).saturating_add(header.length.min(header.room()));
            end.min(self.map.len() as u64)
        })
    }

    /// Whether all that this thread has made since, in these bytes of the file, is launches and queries, so
    /// that its last call may be one of those that are counted before.
    fn goes_on_from(&self, Range { start, end }: Range<u64>, call: &Located) -> bool {
        let all = self.threads.get(call.thread as usize).map_or(0, |thread| thread.calls as u32);
        let (mut at, mut left) = (start, all.wrapping_sub(call.sequence).wrapping_sub(1));
        if left >= ACROSS {
            return false;
        }
        for _ in 0..MOST_RECORDS {
            if left == 0 {
                return true;
            }
            let Some(found) = self.record_within(at, end) else { return false };
            match found.head.kind {
                record::ENTRY if self.ends_no_run(found.head.function) => left -= 1,
                record::RETURN | record::REPEATED => {}
                _ => return false,
            }
            at += found.bytes.len() as u64;
        }
        left == 0
    }
}
