//! Address intervals, their unions, intersections and differences.

use std::borrow::Borrow;
use std::ops::Range;

/// Stretches of memory in order, those that touch as one.
pub(crate) fn joined<T: Ord + Copy>(mut ranges: Vec<Range<T>>) -> Vec<Range<T>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<T>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// The parts of a range outside others, which are in ascending order of their starts.
pub(crate) fn without(range: Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut left, mut at) = (Vec::new(), range.start);
    for other in others {
        left.push(at..other.start.clamp(at, range.end));
        at = other.end.clamp(at, range.end);
    }
    left.push(at..range.end);
    left.retain(|part| !part.is_empty());
    left
}

/// The parts of a range within others, in their order.
pub(crate) fn intersections<R: Borrow<Range<u64>>>(
    range: &Range<u64>,
    others: impl IntoIterator<Item = R>,
) -> Vec<Range<u64>> {
    let part = |other: &Range<u64>| other.start.max(range.start)..other.end.min(range.end);
    let parts = others.into_iter().map(|other| part(other.borrow()));
    parts.filter(|part| !part.is_empty()).collect()
}

/// Stretches in order as no more than so many, of which some take in what lies between.
pub(crate) fn at_most(count: usize, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let each = ranges.len().div_ceil(count).max(1);
    ranges.chunks(each).map(|ranges| ranges[0].start..ranges[ranges.len() - 1].end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_together_covers_all() {
        let ranges: Vec<Range<u64>> = (0..10).map(|n| n * 10..n * 10 + 5).collect();
        assert_eq!(at_most(10, &ranges), ranges);
        assert_eq!(at_most(3, &ranges), [0..35, 40..75, 80..95]);
        assert_eq!(at_most(3, &[]), []);
    }

    #[test]
    fn within_and_without_make_the_whole() {
        let (range, others) = (12..47, [0..15, 20..25, 45..60, 70..80]);
        let (inside, outside) = (intersections(&range, &others), without(range.clone(), &others));
        assert_eq!((&inside[..], &outside[..]), (&[12..15, 20..25, 45..47][..], &[15..20, 25..45][..]));
        assert_eq!(joined([inside, outside].concat()), [range]);
    }
}
