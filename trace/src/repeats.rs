//! Runs of equal polls: a call that stands for others, which its thread made behind it with the same question and answer.

use crate::call::Call;
use crate::reader::Trace;
use crate::record::{self, Repeated};

/// Whether a call stands for others, as the index keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    None,
    Counted,
    /// And nothing of its thread follows.
    Last,
}

/// The calls of a run behind its first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeats {
    pub calls: u64,
    /// Ticks inside them all.
    pub time: u64,
    /// Ticks at the return of the last.
    pub end: u64,
    /// Ticks at the entry of one more, which has not returned.
    pub under_way: Option<u64>,
}

impl Repeats {
    /// What a record can mean behind a return at `end`, and whether it says just that. The recorder writes its words one after the other.
    pub(crate) fn of(record: &Repeated, end: u64) -> (Repeats, bool) {
        let last = record.end.max(end);
        let time = record.time.min(last - end);
        let calls = if record.end == 0 { 0 } else { record.calls };
        let under_way = (record.begin > record.end).then_some(record.begin.max(last));
        let is_sound = (record.end, record.time, record.calls) == (0, 0, 0) || record.end >= end && time == record.time;
        (Repeats { calls, time, end: last, under_way }, is_sound)
    }
}

impl Call<'_> {
    /// How many calls it stands for.
    pub fn count(&self) -> u64 {
        self.repeats.map_or(1, |repeats| repeats.calls.saturating_add(1))
    }

    /// Clock ticks at the return of the last of them; none if the call never returned.
    pub fn last_end(&self) -> Option<u64> {
        self.repeats.map(|repeats| repeats.end).or(self.end)
    }

    /// When the call that its thread is inside of was entered: this one, or one more of its run. None if that has returned.
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
        let counted = self.record(ret + found.bytes.len() as u64).filter(|next| next.head.kind == record::REPEATED)?;
        let (repeats, _) = Repeats::of(&crate::index::body_of(&counted.bytes[record::HEAD..])?, end);
        let under_way = repeats.under_way.filter(|_| run == Run::Last);
        (repeats.calls > 0 || under_way.is_some()).then_some(Repeats { under_way, ..repeats })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_cut_to_what_can() {
        let of = |calls, time, begin, end| Repeats::of(&Repeated { calls, time, begin, end }, 100);
        let repeats = |calls, time, end, under_way| Repeats { calls, time, end, under_way };
        assert_eq!(of(2, 30, 150, 160), (repeats(2, 30, 160, None), true));
        assert_eq!(of(2, 30, 170, 160), (repeats(2, 30, 160, Some(170)), true));
        assert_eq!(of(0, 0, 120, 0), (repeats(0, 0, 100, Some(120)), true));
        // Killed between one word and the next.
        assert_eq!(of(0, 0, 120, 130), (repeats(0, 0, 130, None), true));
        assert_eq!(of(2, 30, 50, 60), (repeats(2, 0, 100, None), false));
        assert_eq!(of(u64::MAX, u64::MAX, 0, u64::MAX), (repeats(u64::MAX, u64::MAX - 100, u64::MAX, None), false));
        assert_eq!(of(7, 0, 0, 0), (repeats(0, 0, 100, None), false));
    }
}
