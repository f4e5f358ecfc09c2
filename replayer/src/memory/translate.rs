//! Memory that could not be put back at its recorded address: module globals, graph memory, ranges already taken.
//!
//! Only a value inside such a range is rewritten. One past the end is somebody else's address, or nobody's.

use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug, Clone, Copy)]
struct Moved {
    len: u64,
    live: u64,
}

#[derive(Default)]
pub struct Translation {
    ranges: RwLock<BTreeMap<u64, Moved>>,
    /// Lets the common case (nothing moved) do without the lock.
    count: AtomicUsize,
}

impl Translation {
    /// `len` bytes at the recorded `start` are now at `live`. Older ranges that overlap are gone.
    pub fn bind(&self, start: u64, len: u64, live: u64) {
        if start == 0 || len == 0 {
            return;
        }
        let mut ranges = self.ranges.write();
        let end = start.saturating_add(len);
        let stale: Vec<u64> =
            ranges.range(..end).rev().take_while(|(at, moved)| **at + moved.len > start).map(|(at, _)| *at).collect();
        for at in stale {
            ranges.remove(&at);
        }
        ranges.insert(start, Moved { len, live });
        self.count.store(ranges.len(), Ordering::Release);
    }

    /// Forgets the range that begins here; its live address.
    pub fn unbind(&self, start: u64) -> Option<u64> {
        let mut ranges = self.ranges.write();
        let moved = ranges.remove(&start);
        self.count.store(ranges.len(), Ordering::Release);
        moved.map(|moved| moved.live)
    }

    /// Where a recorded address is now, if it lies in a range that moved.
    pub fn live(&self, recorded: u64) -> Option<u64> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let ranges = self.ranges.read();
        let (start, moved) = ranges.range(..=recorded).next_back()?;
        (recorded - start < moved.len).then(|| moved.live + (recorded - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_inside_moves() {
        let translation = Translation::default();
        assert_eq!(translation.live(0x1000), None);
        translation.bind(0x1000, 0x100, 0x9000);
        assert_eq!(translation.live(0xfff), None);
        assert_eq!(translation.live(0x1000), Some(0x9000));
        assert_eq!(translation.live(0x10ff), Some(0x90ff));
        assert_eq!(translation.live(0x1100), None);
    }

    #[test]
    fn a_new_range_replaces_what_it_overlaps() {
        let translation = Translation::default();
        translation.bind(0x1000, 0x100, 0x9000);
        translation.bind(0x1100, 0x100, 0xa000);
        translation.bind(0x10f0, 0x20, 0xb000);
        assert_eq!(translation.live(0x1000), None);
        assert_eq!(translation.live(0x10f0), Some(0xb000));
        assert_eq!(translation.live(0x1180), None);
        assert_eq!(translation.unbind(0x10f0), Some(0xb000));
        assert_eq!(translation.live(0x10f0), None);
    }
}
