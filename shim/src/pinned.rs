//! Host memory that the driver knows as pinned: a copy from it reads the bytes later than the call, and a copy into it may
//! finish later.

use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::*};

#[derive(Default)]
pub struct Ranges {
    count: AtomicUsize,
    /// Length by start.
    ranges: RwLock<BTreeMap<u64, u64>>,
}

impl Ranges {
    pub fn add(&self, start: u64, len: u64) {
        if start != 0 && self.ranges.write().insert(start, len).is_none() {
            self.count.fetch_add(1, Relaxed);
        }
    }

    /// Removes the range that starts here; its length, if there was one.
    pub fn remove(&self, start: u64) -> Option<u64> {
        let len = self.ranges.write().remove(&start)?;
        self.count.fetch_sub(1, Relaxed);
        Some(len)
    }

    /// Whether all of `len` bytes at `start` lie in one pinned range.
    pub fn holds(&self, start: u64, len: u64) -> bool {
        if self.count.load(Relaxed) == 0 {
            return false;
        }
        let ranges = self.ranges.read();
        ranges.range(..=start).next_back().is_some_and(|(s, l)| start - s <= *l && len <= l - (start - s))
    }
}
