//! How many calls of the program a call of the file stands for, and how long all of them took.

use crate::call::Call;
use crate::reader::Trace;
use crate::record;
use crate::repeats::{Repeats, Run};

impl Call<'_> {
    /// How many calls it stands for.
    pub fn count(&self) -> u64 {
        self.repeats.map_or(1, |repeats| repeats.calls.saturating_add(1))
    }

    /// Clock ticks at the return of the last of them, or at the next call of its thread that is recorded by
    /// itself: of what is asked in turn each lasts until the next. None if the call never returned.
    pub fn last_end(&self) -> Option<u64> {
        self.repeats.map(|repeats| repeats.in_turn.unwrap_or(repeats.end)).or(self.end)
    }

    /// When the call that its thread is inside of was entered: this one, or one more of its run. None if that
    /// has returned.
    pub fn inside_since(&self) -> Option<u64> {
        match self.end {
            None => Some(self.begin),
            Some(_) => self.repeats?.under_way,
        }
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

    /// What stands directly behind the return at this offset, of a call that stands for others.
    pub(crate) fn repeats_behind(&self, ret: u64, begin: u64, run: Run) -> Option<Repeats> {
        if run == Run::None {
            return None;
        }
        let found = self.record(ret)?;
        let end = crate::segment::u64_at(found.bytes, 8).max(begin);
        let at = ret + found.bytes.len() as u64;
        let counted = self.record(at).filter(|next| next.head.kind == record::REPEATED)?;
        let repeated: record::Repeated = crate::index::body_of(&counted.bytes[record::HEAD..])?;
        let last = repeated.end.max(end);
        let (mut repeats, _) = Repeats::of(counted.head, &repeated, end);
        let under_way = repeats.under_way.filter(|_| run == Run::Last);
        let next = self.record(at + counted.bytes.len() as u64).filter(|next| next.head.kind == record::ENTRY);
        let next = next.filter(|_| run != Run::Last).map(|entry| crate::segment::u64_at(entry.bytes, 8));
        let in_turn = next.filter(|begin| (end..last).contains(begin));
        if let Some(next) = next.filter(|next| last <= *next) {
            // How long those took that were not timed is a guess.
            repeats.end = repeats.end.min(next);
            repeats.time = repeats.time.min(repeats.end - end);
        }
        (repeats.calls > 0 || under_way.is_some()).then_some(Repeats { in_turn, under_way, ..repeats })
    }
}
