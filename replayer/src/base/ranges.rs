//! Sets of address ranges.

use std::ops::Range;

/// Disjoint ranges in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// The union of `ranges`, each widened to multiples of `granule`. Neighbours that touch become one.
    pub(crate) fn union(ranges: impl IntoIterator<Item = Range<u64>>, granule: u64) -> Ranges {
        let widened = ranges.into_iter().filter(|r| r.start < r.end).map(|r| widen(r, granule));
        let mut sorted: Vec<Range<u64>> = widened.collect();
        sorted.sort_unstable_by_key(|r| (r.start, r.end));
        let mut merged: Vec<Range<u64>> = Vec::new();
        for range in sorted {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        Ranges(merged)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().cloned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// From the first address to the last; empty if there is none.
    pub(crate) fn bounds(&self) -> Range<u64> {
        self.0.first().map_or(0, |first| first.start)..self.0.last().map_or(0, |last| last.end)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|r| r.end - r.start).sum()
    }

    /// The range that holds this address.
    pub(crate) fn range_around(&self, address: u64) -> Option<Range<u64>> {
        let at = self.0.partition_point(|r| r.end <= address);
        self.0.get(at).filter(|r| r.start <= address).cloned()
    }

    pub(crate) fn contains(&self, address: u64) -> bool {
        self.range_around(address).is_some()
    }

    /// Whether all of `range` is in the set.
    pub(crate) fn covers(&self, range: &Range<u64>) -> bool {
        self.range_around(range.start).is_some_and(|around| range.end <= around.end)
    }

    pub(crate) fn overlaps(&self, range: &Range<u64>) -> bool {
        self.overlapping_ranges(range).next().is_some()
    }

    /// Those that share something with `range`.
    fn overlapping_ranges(&self, range: &Range<u64>) -> impl Iterator<Item = &Range<u64>> {
        let (start, end) = (range.start, range.end);
        self.0[self.0.partition_point(|r| r.end <= start)..].iter().take_while(move |r| r.start < end)
    }

    /// Whether both hold some address.
    pub(crate) fn meets(&self, other: &Ranges) -> bool {
        let (few, many) = if self.0.len() < other.0.len() { (self, other) } else { (other, self) };
        few.0.iter().any(|range| many.overlaps(range))
    }

    /// The parts of `range` that are not in the set.
    pub(crate) fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        for taken in self.overlapping_ranges(&range) {
            if at < taken.start {
                gaps.push(at..taken.start);
            }
            at = at.max(taken.end);
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }

    pub(crate) fn remove(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        let met = self.places(|one| one.end > range.start, |one| one.start < range.end);
        let left = self.0[met.clone()].iter().flat_map(|one| {
            let before = one.start..one.end.min(range.start);
            let behind = one.start.max(range.end)..one.end;
            [before, behind]
        });
        let left: Vec<Range<u64>> = left.filter(|one| one.start < one.end).collect();
        self.0.splice(met, left);
    }

    pub(crate) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        // Neighbours become one.
        let met = self.places(|one| one.end >= range.start, |one| one.start <= range.end);
        let (first, last) = (self.0[met.clone()].first(), self.0[met.clone()].last());
        let start = first.map_or(range.start, |first| first.start.min(range.start));
        let end = last.map_or(range.end, |last| last.end.max(range.end));
        self.0.splice(met, std::iter::once(start..end));
    }

    /// Places of those in a row for which both hold: the first from some place on, the second up to some.
    fn places(&self, from: impl Fn(&Range<u64>) -> bool, until: impl Fn(&Range<u64>) -> bool) -> Range<usize> {
        let first = self.0.partition_point(|one| !from(one));
        first..first + self.0[first..].partition_point(until)
    }
}

/// `range` with its ends moved out to multiples of `granule`.
pub(crate) fn widen(range: Range<u64>, granule: u64) -> Range<u64> {
    range.start / granule * granule..range.end.div_ceil(granule).saturating_mul(granule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_union_holds_what_went_in(ranges in prop::collection::vec((0u64..500, 0u64..40), 0..20), at in 0u64..600) {
            let ranges: Vec<Range<u64>> = ranges.into_iter().map(|(start, len)| start..start + len).collect();
            let union = Ranges::union(ranges.clone(), 1);
            prop_assert_eq!(union.contains(at), ranges.iter().any(|r| r.contains(&at)));
            let gaps = union.gaps(0..600);
            prop_assert_eq!(union.contains(at), !gaps.iter().any(|r| r.contains(&at)));
        }

        #[test]
        fn what_is_put_in_and_taken_out_is_a_union_again(
            ranges in prop::collection::vec((0u64..500, 0u64..40, any::<bool>()), 0..20)
        ) {
            let (mut set, mut held) = (Ranges::default(), [false; 600]);
            for (start, len, is_in) in ranges {
                let range = start..start + len;
                if is_in { set.insert(range.clone()) } else { set.remove(&range) }
                held[start as usize..(start + len) as usize].fill(is_in);
            }
            let one_by_one = (0..600).filter(|at| held[*at as usize]).map(|at| at..at + 1);
            prop_assert_eq!(set, Ranges::union(one_by_one, 1));
        }
    }

    #[test]
    fn neighbours_in_one_granule_become_one() {
        let union = Ranges::union([0x200..0x300, 0x10_0000..0x10_0001, 0x60_0000..0x60_0010], 0x20_0000);
        assert_eq!(union.iter().collect::<Vec<_>>(), [0..0x20_0000, 0x60_0000..0x80_0000]);
        assert_eq!(union.bytes(), 0x40_0000);
        assert!(union.covers(&(0x100..0x20_0000)));
        assert!(!union.covers(&(0x100..0x20_0001)));
        assert!(union.overlaps(&(0x1f_ffff..0x30_0000)));
        assert!(!union.overlaps(&(0x20_0000..0x60_0000)));
    }
}
