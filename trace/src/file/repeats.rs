//! Runs of equal polls and queries: one recorded call stands for the calls that its thread made after it with
//! the same arguments and the same result.

use crate::file::record::{Head, Repeated, TIMED_IN_PART, TIMED_ONE_IN};

/// Whether a call stands for others, as the index stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    None,
    Counted,
    /// And nothing of its thread follows.
    Last,
}

impl Run {
    pub(crate) fn from_bits(bits: u64) -> Run {
        [Run::None, Run::Counted, Run::Last, Run::None][bits as usize & 3]
    }
}

/// The calls of a run behind its first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeats {
    /// Number of calls, without the one that stands for them.
    pub calls: u64,
    /// Ticks inside them all; if some were timed, as if the others had taken as long.
    pub time: u64,
    /// Ticks at the return of the last.
    pub end: u64,
    /// Ticks at which its thread made another call that some of them came behind, if it did: a launch, or
    /// something else that was asked.
    pub in_turn: Option<u64>,
    /// Ticks at the entry of one more, which has not returned.
    pub under_way: Option<u64>,
}

impl Repeats {
    /// What a record can mean behind a return at `end`, and whether it says just that. The recorder writes
    /// its words one after the other.
    pub(crate) fn decode(head: Head, record: &Repeated, end: u64) -> (Repeats, bool) {
        let last = record.end.max(end);
        let is_within = record.time <= last - end;
        let calls = if record.end == 0 { 0 } else { record.calls };
        let (mut time, mut ends) = (record.time.min(last - end), last);
        if head.flags & TIMED_IN_PART != 0 && calls > 0 {
            let each = time / calls.div_ceil(TIMED_ONE_IN);
            ends = last.saturating_add(each.saturating_mul((calls - 1) % TIMED_ONE_IN));
            time = each.saturating_mul(calls).min(ends - end);
        }
        let under_way = (record.begin > record.end).then_some(record.begin.max(ends));
        let is_sound = (record.end, record.time, record.calls) == (0, 0, 0) || record.end >= end && is_within;
        (Repeats { calls, time, end: ends, in_turn: None, under_way }, is_sound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::record::REPEATED;

    #[test]
    fn what_cannot_be_is_cut_to_what_can() {
        let head = |flags| Head { size: 0, kind: REPEATED, flags, function: 0 };
        let of = |calls, time, begin, end| Repeats::decode(head(0), &Repeated { calls, time, begin, end }, 100);
        let in_part =
            |calls, time, end| Repeats::decode(head(TIMED_IN_PART), &Repeated { calls, time, begin: 0, end }, 100);
        let repeats = |calls, time, end, under_way| Repeats { calls, time, end, in_turn: None, under_way };
        assert_eq!(of(2, 30, 150, 160), (repeats(2, 30, 160, None), true));
        assert_eq!(of(2, 30, 170, 160), (repeats(2, 30, 160, Some(170)), true));
        assert_eq!(of(0, 0, 120, 0), (repeats(0, 0, 100, Some(120)), true));
        // Killed between one word and the next.
        assert_eq!(of(0, 0, 120, 130), (repeats(0, 0, 130, None), true));
        assert_eq!(of(2, 30, 50, 60), (repeats(2, 0, 100, None), false));
        assert_eq!(of(u64::MAX, u64::MAX, 0, u64::MAX), (repeats(u64::MAX, u64::MAX - 100, u64::MAX, None), false));
        assert_eq!(of(7, 0, 0, 0), (repeats(0, 0, 100, None), false));
        // The first and the 17th of 18 were timed.
        assert_eq!(in_part(18, 20, 900), (repeats(18, 180, 910, None), true));
        assert_eq!(in_part(10, 20, 150), (repeats(10, 200, 330, None), true));
        assert_eq!(in_part(1, 20, 150), (repeats(1, 20, 150, None), true));
        assert_eq!(in_part(u64::MAX, 60, 150), (repeats(u64::MAX, 0, 150, None), false));
    }
}
