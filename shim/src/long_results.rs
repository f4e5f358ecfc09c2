//! How much of long memory may be read to learn what launches have made of it.
//!
//! To read a megabyte of pinned memory takes up to half a millisecond, and a program may give the same gigabyte to a launch every
//! millisecond. Managed memory comes from the device for it, and goes back with the next launch. What is read is therefore bounded by the
//! time that has passed: less than two percent of it are spent so by a program that runs for long.

use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

/// Pinned memory up to this length is always read, and of managed memory so much from its beginning.
pub const SHORT: u64 = 1 << 20;
/// Longer pinned memory is read in such pieces, as many as there is room for.
pub const PIECE: u64 = 4 << 20;

/// Bytes that may be read.
pub struct Allowance {
    at_first: u64,
    each_second: u64,
    since: Instant,
    taken: AtomicU64,
}

impl Allowance {
    pub fn for_pinned() -> Allowance {
        Allowance::new(256 << 20, 32 << 20)
    }

    pub fn for_managed() -> Allowance {
        Allowance::new(16 << 20, 4 << 20)
    }

    fn new(at_first: u64, each_second: u64) -> Allowance {
        Allowance { at_first, each_second, since: Instant::now(), taken: AtomicU64::new(0) }
    }

    /// Whether so many bytes more may be read now; they count as read then.
    pub fn take(&self, bytes: u64) -> bool {
        let all = self.allowed(self.since.elapsed());
        let taken = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= all);
        self.taken.fetch_update(Relaxed, Relaxed, taken).is_ok()
    }

    fn allowed(&self, passed: Duration) -> u64 {
        self.at_first + (passed.as_secs_f64() * self.each_second as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_is_allowed() {
        let allowance = Allowance::new(256 << 20, 32 << 20);
        let read = (0..1000).filter(|_| allowance.take(PIECE)).count() as u64 * PIECE;
        assert!((256 << 20..=288 << 20).contains(&read), "{read}");
        assert!(!allowance.take(u64::MAX));
        assert_eq!(allowance.allowed(Duration::from_secs(10)), 576 << 20);
    }
}
