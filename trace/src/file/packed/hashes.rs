//! The hashes of blobs, computed while they are unpacked piece by piece, and the blobs that are wrong.

use super::unpacked::{Packed, Unpacked, threads_for};
use crate::base::hash::{Hash, Hasher};
use crate::base::parallel;
use crate::file::segment::{HEADER, Header, Kind};
use std::ops::Range;

/// The ranges of a piece, which do not overlap, and the bytes of them that have arrived.
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
        Hashes { open: ranges, hasher: Hasher::default(), at: 0, done: Vec::with_capacity(ranges.len()) }
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

impl Unpacked {
    /// Whether a segment of a piece of blobs begins here.
    pub(crate) fn is_among_blobs(&self, at: u64) -> bool {
        self.segment_at(at).is_some_and(|one| one.kind == Kind::Blob) && self.places.binary_search(&at).is_ok()
    }

    /// Which packed blobs do not hold what they are named by, or cannot be unpacked: where these segments begin, in order. Nothing
    /// of them is unpacked for good.
    pub(crate) fn wrong_blobs(&self) -> Vec<u64> {
        let blobs: Vec<&Packed> = self.segments.iter().filter(|one| one.kind == Kind::Blob).collect();
        let mut wrong = parallel::map(threads_for(&blobs), blobs, |one| self.wrong_blobs_of(one)).concat();
        wrong.sort_unstable();
        wrong
    }

    fn wrong_blobs_of(&self, one: &Packed) -> Vec<u64> {
        let content = |at: u64, header: &Header| {
            let start = at + HEADER as u64;
            start..start.saturating_add(header.length.min(header.room())).min(one.to - one.from)
        };
        let before = |end| self.places.partition_point(|at| *at < end);
        let all = &self.places[before(one.from)..before(one.to)];
        let mut ranges: Vec<Range<u64>> = Vec::with_capacity(all.len());
        let _read = self.each_header(one, |at, header, _| {
            ranges.push(content(at, &header));
            Ok(())
        });
        let mut hashes = Hashes::new(&ranges);
        let unpacked = self.unpacked(one, false, |at, bytes| {
            hashes.take(at, bytes);
            Ok(())
        });
        let hashes = unpacked.map(|()| hashes.finish()).unwrap_or_default();
        let (mut wrong, mut checked) = (Vec::new(), 0);
        let _read = self.each_header(one, |at, header, _| {
            let (range, hash) = (content(at, &header), hashes.get(checked));
            let is_right = range.end - range.start == header.length && hash.is_some_and(|hash| hash.0 == header.id);
            wrong.extend((!is_right).then_some(one.from + at));
            checked += 1;
            Ok(())
        });
        wrong.extend(all.get(checked..).unwrap_or_default());
        wrong
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
