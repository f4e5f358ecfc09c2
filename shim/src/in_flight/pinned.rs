//! Host memory that the driver knows as pinned: a copy from it may read the bytes after the call, and a copy
//! into it may complete later.

use crate::os::lock::Lock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

pub(crate) struct Ranges {
    count: AtomicUsize,
    /// Between these lies all of it: the lowest address that a range has ever begun at, and the highest end.
    lowest: AtomicU64,
    highest: AtomicU64,
    /// A bit for each 2 MiB of addresses, modulo 128 GiB, that a range has ever touched: most words are none
    /// of ours.
    touched: Box<[AtomicU64]>,
    /// By their start.
    ranges: Lock<BTreeMap<u64, PinnedRange>>,
}

struct PinnedRange {
    len: u64,
    /// The program had it before the driver knew it.
    registered: bool,
    /// The CPU reads it a hundred times slower than other memory, for all that is known.
    write_combined: bool,
}

const GRANULE: u32 = 21;
const GRANULES: u64 = 1 << 16;

impl Default for Ranges {
    fn default() -> Ranges {
        let touched = (0..GRANULES / 64).map(|_| AtomicU64::new(0)).collect();
        Ranges {
            count: AtomicUsize::new(0),
            lowest: AtomicU64::new(u64::MAX),
            highest: AtomicU64::new(0),
            touched,
            ranges: Lock::default(),
        }
    }
}

impl Ranges {
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Relaxed) != 0
    }

    /// Memory that the driver gives.
    pub(crate) fn add(&self, start: u64, len: u64, write_combined: bool) {
        self.insert(start, PinnedRange { len, registered: false, write_combined });
    }

    /// Memory of the program's own.
    pub(crate) fn register(&self, start: u64, len: u64) {
        self.insert(start, PinnedRange { len, registered: true, write_combined: false });
    }

    fn insert(&self, start: u64, held: PinnedRange) {
        if start != 0 {
            let granules = start >> GRANULE..=start.saturating_add(held.len.max(1) - 1) >> GRANULE;
            for granule in granules.take(GRANULES as usize) {
                self.touched[(granule % GRANULES / 64) as usize].fetch_or(1 << (granule % 64), Relaxed);
            }
            self.lowest.fetch_min(start, Relaxed);
            self.highest.fetch_max(start.saturating_add(held.len.max(1)), Relaxed);
            let mut ranges = self.ranges.lock();
            ranges.insert(start, held);
            self.count.store(ranges.len(), Relaxed);
        }
    }

    /// Removes the range that starts here; its length, if there was one.
    pub(crate) fn remove(&self, start: u64) -> Option<u64> {
        let mut ranges = self.ranges.lock();
        let held = ranges.remove(&start);
        self.count.store(ranges.len(), Relaxed);
        held.map(|held| held.len)
    }

    /// Drops the ranges that the driver no longer knows. It is asked without the lock.
    pub(crate) fn remove_freed(&self, is_gone: impl Fn(u64) -> bool) -> Vec<(u64, u64)> {
        let starts: Vec<u64> = self.ranges.lock().keys().copied().collect();
        let gone = starts.into_iter().filter(|start| is_gone(*start));
        gone.filter_map(|start| Some((start, self.remove(start)?))).collect()
    }

    /// Whether a range may hold this address: false is certain.
    #[inline(always)]
    pub(crate) fn may_hold(&self, address: u64) -> bool {
        let granule = address >> GRANULE;
        self.touched[(granule % GRANULES / 64) as usize].load(Relaxed) >> (granule % 64) & 1 != 0
    }

    /// The words of these bytes that are addresses in a range.
    pub(crate) fn addresses_in<'b>(&'b self, bytes: &'b [u8]) -> impl Iterator<Item = u64> + use<'b> {
        let lowest = self.lowest.load(Relaxed);
        let span = self.highest.load(Relaxed).saturating_sub(lowest);
        let words = if self.any() { bytes } else { &[] }.chunks_exact(8);
        let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
        // Of data few words come so far.
        words.filter(move |word| word.wrapping_sub(lowest) < span && self.find(*word).is_some())
    }

    /// The range that holds this address: where it starts, and its length.
    #[inline]
    pub(crate) fn find(&self, address: u64) -> Option<(u64, u64)> {
        if !self.may_hold(address) {
            return None;
        }
        let ranges = self.ranges.lock();
        let (start, PinnedRange { len, .. }) = ranges.range(..=address).next_back()?;
        (address - start < *len).then_some((*start, *len))
    }

    /// Whether all of `len` bytes at `start` lie in one pinned range.
    pub(crate) fn holds(&self, start: u64, len: u64) -> bool {
        if self.count.load(Relaxed) == 0 {
            return false;
        }
        let ranges = self.ranges.lock();
        let before = ranges.range(..=start).next_back();
        before.is_some_and(|(s, held)| start - s <= held.len && len <= held.len - (start - s))
    }

    /// Whether all of it lies in memory that the driver gave, and was not told to take back: it can be read.
    /// The program's own may have been unmapped: the device still reaches it.
    pub(crate) fn holds_driver_memory(&self, start: u64, len: u64) -> bool {
        self.is_the_drivers(start) && self.holds(start, len)
    }

    /// Whether the driver gave the memory at this address.
    pub(crate) fn is_the_drivers(&self, address: u64) -> bool {
        self.is(address, |held| !held.registered)
    }

    /// Whether the memory at this address was asked for as write-combined. The driver, which would know it,
    /// may not be asked within callbacks.
    pub(crate) fn is_write_combined(&self, address: u64) -> bool {
        self.is(address, |held| held.write_combined)
    }

    fn is(&self, address: u64, what: impl Fn(&PinnedRange) -> bool) -> bool {
        let ranges = self.ranges.lock();
        let before = ranges.range(..=address).next_back();
        before.is_some_and(|(start, held)| address - start < held.len && what(held))
    }
}
