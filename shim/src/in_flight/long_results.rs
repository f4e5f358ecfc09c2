//! The limit on reading long pinned memory for the results of launches, and of graph copies that callbacks
//! use.
//!
//! Reading a megabyte takes up to half a millisecond, and a program may pass the same gigabyte to a launch
//! every millisecond, or launch a graph that copies to it as often. The limit is 256 MiB, and 32 MiB more for
//! each second that has passed: less than two percent of the time of a long-running program.

use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

/// Of more memory it is not followed what launches make of it before a callback.
pub(crate) const MOST_READ: u64 = 8 << 20;

/// Memory up to this length is always read.
pub(crate) const SHORT: u64 = 1 << 20;
/// Longer memory is read in such pieces, as many as there is room for.
pub(crate) const PIECE: u64 = 4 << 20;
const AT_FIRST: u64 = 256 << 20;
const EACH_SECOND: u64 = 32 << 20;

pub(crate) struct Allowance {
    since: Instant,
    taken: AtomicU64,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { since: Instant::now(), taken: AtomicU64::new(0) }
    }
}

impl Allowance {
    /// Whether so many bytes more may be read now; they count as read then.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let all = allowed(self.since.elapsed());
        let taken = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= all);
        self.taken.fetch_update(Relaxed, Relaxed, taken).is_ok()
    }
}

fn allowed(passed: Duration) -> u64 {
    AT_FIRST + (passed.as_secs_f64() * EACH_SECOND as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_is_allowed() {
        let allowance = Allowance::default();
        let read = (0..1000).filter(|_| allowance.take(PIECE)).count() as u64 * PIECE;
        assert!((AT_FIRST..=AT_FIRST + EACH_SECOND).contains(&read), "{read}");
        assert!(!allowance.take(u64::MAX));
        assert_eq!(allowed(Duration::from_secs(10)), AT_FIRST + 10 * EACH_SECOND);
    }
}
