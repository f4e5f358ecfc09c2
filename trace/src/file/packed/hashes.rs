//! The hashes of blobs as they are unpacked: none is anywhere as a whole.

use crate::base::hash::{Hash, Hasher};
use std::ops::Range;

/// The ranges of a piece, none of which begins within another, and what of them has come.
pub(super) struct Hashes<'a> {
    open: &'a [Range<u64>],
    hasher: Hasher,
    /// Up to where bytes have come.
    at: u64,
    done: Vec<Hash>,
}

pub(super) static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

impl<'a> Hashes<'a> {
    pub(super) fn new(ranges: &'a [Range<u64>]) -> Hashes<'a> {
        Hashes { open: ranges, hasher: Hasher::default(), at: 0, done: Vec::new() }
    }

    /// The bytes from an offset on; what lies before it and has not come is zeros. Bytes that have come do not
    /// change.
    pub(super) fn take(&mut self, from: u64, bytes: &[u8]) {
        if from < self.at {
            return;
        }
        self.zeros(from);
        let end = from + bytes.len() as u64;
        while let Some(range) = self.open.first().filter(|range| range.start < end || range.end <= self.at) {
            let (start, to) = (range.start.max(self.at), range.end.min(end));
            self.hasher.update(bytes.get((start - from) as usize..(to.max(start) - from) as usize).unwrap_or(&[]));
            self.at = to.max(self.at);
            if range.end > end {
                break;
            }
            self.close();
        }
        self.at = end;
    }

    fn zeros(&mut self, to: u64) {
        while let Some(range) = self.open.first().filter(|range| range.end <= to || range.start < to) {
            let end = range.end.min(to);
            let mut at = range.start.max(self.at);
            while at < end {
                let step = (end - at).min(ZEROS.len() as u64);
                self.hasher.update(&ZEROS[..step as usize]);
                at += step;
            }
            self.at = at;
            if range.end > to {
                break;
            }
            self.close();
        }
        self.at = self.at.max(to);
    }

    fn close(&mut self) {
        self.done.push(self.hasher.finish());
        self.hasher = Hasher::default();
        self.open = &self.open[1..];
    }

    /// Of all ranges, in their order.
    pub(super) fn finish(mut self) -> Vec<Hash> {
        self.zeros(u64::MAX);
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_whole() {
        let bytes: Vec<u8> = (0..100_000u32).map(|at| if at < 70_000 { at as u8 } else { 0 }).collect();
        let ranges = [64..64, 64..100, 164..60_000, 60_064..80_000, 90_000..100_000];
        let expected = ranges.clone().map(|range| Hash::compute(&bytes[range.start as usize..range.end as usize]));
        for step in [1, 7, 64, 4096, 100_000] {
            let mut hashes = Hashes::new(&ranges);
            bytes[..70_000].chunks(step).zip(0..).for_each(|(part, at)| hashes.take(at * step as u64, part));
            // A header, in the end.
            hashes.take(60_000, &[9; 64]);
            assert_eq!(hashes.finish(), expected, "{step}");
        }
    }
}
