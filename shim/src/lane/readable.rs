//! Memory of the program that can be read without asking Linux: the calling thread's stack, and pages that the
//! driver has read at the thread's earlier launches.

use super::Lane;
use crate::dirty_pages::PAGE;
use std::cell::Cell;
use std::ops::Range;

/// Some of the pages that the driver has read arguments of launches from. A program that has given such a page
/// back cannot launch from there: the driver would read it just the same.
pub struct ReadPages([Cell<u64>; ReadPages::COUNT]);

impl ReadPages {
    const COUNT: usize = 64;
    pub const fn none() -> ReadPages {
        ReadPages([const { Cell::new(0) }; ReadPages::COUNT])
    }

    fn slot(&self, page: u64) -> &Cell<u64> {
        &self.0[page as usize % ReadPages::COUNT]
    }
}

impl Lane {
    /// The driver has read these bytes, at a launch that it accepted.
    #[inline(always)]
    pub fn was_read(&self, at: u64, len: u64) {
        for page in [at / PAGE, (at + len.max(1) - 1) / PAGE] {
            self.read_pages.slot(page).set(page);
        }
    }

    /// Whether the driver is known to have read the page, or both pages, that these bytes lie on.
    pub fn has_read(&self, at: u64, len: u64) -> bool {
        let (first, last) = (at / PAGE, at.saturating_add(len.max(1) - 1) / PAGE);
        first != 0 && last - first <= 1 && [first, last].iter().all(|page| self.read_pages.slot(*page).get() == *page)
    }

    /// The addresses of the calling thread's stack.
    pub fn stack(&self) -> Option<Range<u64>> {
        if self.stack.get().0 == 0 {
            self.stack.set(stack_of_thread().unwrap_or((1, 1)));
        }
        let (from, to) = self.stack.get();
        (to > 1).then_some(from..to)
    }
}

fn stack_of_thread() -> Option<(u64, u64)> {
    // SAFETY: the attributes are filled by the first call and freed by the last.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return None;
        }
        let (mut start, mut len) = (std::ptr::null_mut(), 0);
        let known = libc::pthread_attr_getstack(&attributes, &mut start, &mut len) == 0;
        libc::pthread_attr_destroy(&mut attributes);
        known.then_some((start as u64, start as u64 + len as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::super::current;

    #[test]
    fn what_the_driver_has_read_can_be_read_again() {
        let lane = current();
        lane.was_read(0x7000_1ff8, 16);
        assert!(lane.has_read(0x7000_1000, 8) && lane.has_read(0x7000_2ff8, 8) && lane.has_read(0x7000_1ff8, 16));
        assert!(
            !lane.has_read(0x7000_3000, 8) && !lane.has_read(0x7000_2ff8, 16) && !lane.has_read(0x7000_1000, 3 << 12)
        );
        assert!(!lane.has_read(0, 8) && !lane.has_read(u64::MAX, 8));
        // Another page takes the place.
        lane.was_read(0x7004_1000, 8);
        assert!(lane.has_read(0x7004_1000, 8) && !lane.has_read(0x7000_1000, 8));
    }
}
