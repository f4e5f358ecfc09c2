//! The layout of allocations: small ones share granules of 2 MiB, large ones have mappings of their own.

use std::collections::BTreeMap;

use super::ipc;
use super::pages::{self, GRANULE};

const STEP: u64 = 512;
/// No longer ones share a granule.
pub(crate) const SMALL: u64 = 1 << 20;
/// As much has a mapping of its own.
pub(crate) const WHOLE: u64 = SMALL + 1;
const LARGE: u64 = 32 << 20;

/// 2 MiB that small allocations share.
pub(crate) struct Granule {
    /// Free stretches: start and size.
    free: BTreeMap<u64, u64>,
    used: u64,
}

impl Granule {
    pub(crate) fn new(start: u64) -> Self {
        Self { free: BTreeMap::from([(start, GRANULE)]), used: 0 }
    }

    fn hole(&self, size: u64) -> Option<u64> {
        self.free.iter().find(|(_, free)| **free >= size).map(|(at, _)| *at)
    }

    pub(crate) fn take(&mut self, size: u64) -> Option<u64> {
        let size = rounded(size);
        let at = self.hole(size)?;
        let free = self.free.remove(&at)?;
        if free > size {
            self.free.insert(at + size, free - size);
        }
        self.used += size;
        Some(at)
    }

    /// Whether all of it is free now.
    pub(crate) fn give(&mut self, at: u64, size: u64) -> bool {
        let (mut at, mut free) = (at, rounded(size));
        self.used -= free;
        if let Some(next) = self.free.remove(&(at + free)) {
            free += next;
        }
        if let Some((&before, &length)) = self.free.range(..at).next_back()
            && before + length == at
        {
            self.free.remove(&before);
            (at, free) = (before, free + length);
        }
        self.free.insert(at, free);
        self.used == 0
    }
}

fn rounded(size: u64) -> u64 {
    size.max(1).next_multiple_of(STEP)
}

/// Addresses assigned upwards from a start; freed ones are reused first.
pub(crate) struct Arena {
    cursor: u64,
    granules: BTreeMap<u64, Granule>,
    /// Whole mappings in use: start and size.
    whole: BTreeMap<u64, u64>,
    /// Stretches that were used once, by start.
    old: BTreeMap<u64, u64>,
}

/// An allocation: its address, and the number of bytes that the device newly uses for it.
pub(crate) struct Allocated {
    pub at: u64,
    pub grown: u64,
}

impl Arena {
    pub(crate) const fn new(start: u64) -> Self {
        Self { cursor: start, granules: BTreeMap::new(), whole: BTreeMap::new(), old: BTreeMap::new() }
    }

    /// How many bytes of the device an allocation would newly take.
    pub(crate) fn need(&self, size: u64) -> u64 {
        if size > SMALL {
            size.next_multiple_of(GRANULE)
        } else if self.granules.values().any(|granule| granule.hole(rounded(size)).is_some()) {
            0
        } else {
            GRANULE
        }
    }

    pub(crate) fn take(&mut self, size: u64) -> Option<Allocated> {
        if size > SMALL {
            let size = size.next_multiple_of(GRANULE);
            let align = if size >= LARGE { LARGE } else { GRANULE };
            let at = self.map(size, align)?;
            self.whole.insert(at, size);
            return Some(Allocated { at, grown: size });
        }
        if let Some(at) = self.granules.values_mut().find_map(|granule| granule.take(size)) {
            return Some(Allocated { at, grown: 0 });
        }
        let start = self.map(GRANULE, GRANULE)?;
        let granule = self.granules.entry(start).or_insert_with(|| Granule::new(start));
        granule.take(size).map(|at| Allocated { at, grown: GRANULE })
    }

    pub(crate) fn give(&mut self, at: u64, size: u64) -> u64 {
        if let Some(size) = self.whole.remove(&at) {
            self.unmap(at, size);
            return size;
        }
        let Some((&start, granule)) = self.granules.range_mut(..=at).next_back() else { return 0 };
        if !granule.give(at, size) {
            return 0;
        }
        self.granules.remove(&start);
        self.unmap(start, GRANULE);
        GRANULE
    }

    fn unmap(&mut self, at: u64, size: u64) {
        ipc::forget(at);
        pages::unmap(at, size);
        self.old.insert(at, size);
    }

    fn map(&mut self, size: u64, align: u64) -> Option<u64> {
        let fits = |(at, free): (&u64, &u64)| (*free >= size && at.is_multiple_of(align)).then_some((*at, *free));
        while let Some((at, free)) = self.old.iter().find_map(fits) {
            self.old.remove(&at);
            if pages::place(at, size) {
                if free > size {
                    self.old.insert(at + size, free - size);
                }
                return Some(at);
            }
        }
        // Past whatever else lies in the way, for a while.
        for _ in 0..100_000 {
            let at = self.cursor.next_multiple_of(align);
            if pages::place(at, size) {
                self.cursor = at + size;
                return Some(at);
            }
            if pages::were_refused() {
                break;
            }
            self.cursor = at + align;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_ones_share_a_granule() {
        let mut arena = Arena::new(0x4200_0000_0000);
        let [a, b, c] = [1000, 1, 512].map(|size| arena.take(size).unwrap());
        assert_eq!([b.at - a.at, c.at - b.at], [1024, 512]);
        assert_eq!([a.grown, b.grown, c.grown], [GRANULE, 0, 0]);
        assert_eq!(arena.give(b.at, 1), 0);
        assert_eq!(arena.take(100).unwrap().at, b.at, "the hole is used again");
        assert_eq!([arena.give(a.at, 1000), arena.give(b.at, 100)], [0, 0]);
        assert_eq!(arena.give(c.at, 512), GRANULE);
    }

    #[test]
    fn large_ones_are_aligned_and_come_back() {
        let mut arena = Arena::new(0x4300_0000_0000 + GRANULE);
        let (a, b) = (arena.take(3 << 20).unwrap(), arena.take(LARGE).unwrap());
        assert_eq!((a.grown, b.at % LARGE), (4 << 20, 0));
        assert_eq!(arena.give(b.at, LARGE), LARGE);
        assert_eq!(arena.take(LARGE).unwrap().at, b.at);
    }
}
