//! Pages of the program's memory from which the driver has read launch arguments.

use crate::os::dirty_pages::PAGE;
use std::cell::Cell;

/// Some of the pages from which the driver has read launch arguments. A program that has unmapped such a page
/// cannot launch from there: the driver would read it too.
pub(crate) struct ReadPages([Cell<u64>; ReadPages::COUNT]);

impl ReadPages {
    const COUNT: usize = 64;
    pub(crate) const fn none() -> ReadPages {
        ReadPages([const { Cell::new(0) }; ReadPages::COUNT])
    }

    fn slot(&self, page: u64) -> &Cell<u64> {
        &self.0[page as usize % ReadPages::COUNT]
    }

    /// The driver has read these bytes, at a launch that it accepted.
    #[inline(always)]
    pub(crate) fn add(&self, at: u64, len: u64) {
        for page in [at / PAGE, (at + len.max(1) - 1) / PAGE] {
            self.slot(page).set(page);
        }
    }

    /// Whether the driver is known to have read the page, or both pages, that these bytes lie on.
    pub(crate) fn have(&self, at: u64, len: u64) -> bool {
        let (first, last) = (at / PAGE, at.saturating_add(len.max(1) - 1) / PAGE);
        first != 0 && last - first <= 1 && [first, last].iter().all(|page| self.slot(*page).get() == *page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_has_read_can_be_read_again() {
        let pages = ReadPages::none();
        pages.add(0x7000_1ff8, 16);
        assert!([(0x7000_1000, 8), (0x7000_2ff8, 8), (0x7000_1ff8, 16)].iter().all(|(at, len)| pages.have(*at, *len)));
        let others = [(0x7000_3000, 8), (0x7000_2ff8, 16), (0x7000_1000, 3 << 12), (0, 8), (u64::MAX, 8)];
        assert!(!others.iter().any(|(at, len)| pages.have(*at, *len)));
        // Another page takes the place.
        pages.add(0x7004_1000, 8);
        assert!(pages.have(0x7004_1000, 8) && !pages.have(0x7000_1000, 8));
    }
}
