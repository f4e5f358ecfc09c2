//! Stretches of memory, and what is left of them without others.

use std::ops::Range;

/// Stretches of memory in order, those that touch as one.
pub fn joined<T: Ord + Copy>(mut ranges: Vec<Range<T>>) -> Vec<Range<T>> {
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
pub fn without(range: Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut left, mut at) = (Vec::new(), range.start);
    for other in others {
        left.push(at..other.start.clamp(at, range.end));
        at = other.end.clamp(at, range.end);
    }
    left.push(at..range.end);
    left.retain(|part| !part.is_empty());
    left
}

/// The parts of a range within others.
pub fn within(range: &Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let parts = others.iter().map(|other| other.start.max(range.start)..other.end.min(range.end));
    parts.filter(|part| !part.is_empty()).collect()
}
