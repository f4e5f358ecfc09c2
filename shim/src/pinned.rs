//! Host memory that the driver knows as pinned: a copy from it reads the bytes later than the call, and a copy into it may
//! finish later.

use crate::lock::Lock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::*};

#[derive(Default)]
pub struct Ranges {
    count: AtomicUsize,
    /// Length by start.
    ranges: Lock<BTreeMap<u64, u64>>,
}

impl Ranges {
    pub fn add(&self, start: u64, len: u64) {
        if start != 0 {
            let mut ranges = self.ranges.lock();
            ranges.insert(start, len);
            self.count.store(ranges.len(), Relaxed);
        }
    }

    /// Removes the range that starts here; its length, if there was one.
    pub fn remove(&self, start: u64) -> Option<u64> {
        let mut ranges = self.ranges.lock();
        let len = ranges.remove(&start);
        self.count.store(ranges.len(), Relaxed);
        len
    }

    /// Drops the ranges that the driver no longer knows. It is asked without the lock.
    pub fn drop_gone(&self, is_gone: impl Fn(u64) -> bool) {
        let starts: Vec<u64> = self.ranges.lock().keys().copied().collect();
        for start in starts.into_iter().filter(|start| is_gone(*start)) {
            self.remove(start);
        }
    }

    /// Whether all of `len` bytes at `start` lie in one pinned range.
    pub fn holds(&self, start: u64, len: u64) -> bool {
        if self.count.load(Relaxed) == 0 {
            return false;
        }
        let ranges = self.ranges.lock();
        ranges.range(..=start).next_back().is_some_and(|(s, l)| start - s <= *l && len <= l - (start - s))
    }
}
