//! Work on many bytes by several threads at once.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use trace::base::parallel::{map, processors};

/// Fewer bytes are done with before another thread has begun.
const FEW: usize = 4 << 20;
/// More threads are in each other's way on the way to memory.
const MOST: usize = 8;

/// Threads that help a worker now. Of all workers they are no more than there are processors.
static HELPERS: AtomicUsize = AtomicUsize::new(0);

struct Helpers(usize);

impl Helpers {
    fn for_work_on(bytes: usize) -> Helpers {
        if bytes < FEW {
            return Helpers(0);
        }
        let all = processors() - 1;
        let take = |taken: usize| Some(taken + all.saturating_sub(taken).min(MOST - 1));
        let before = HELPERS.fetch_update(Relaxed, Relaxed, take).unwrap_or(all);
        Helpers(all.saturating_sub(before).min(MOST - 1))
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        HELPERS.fetch_sub(self.0, Relaxed);
    }
}

/// What `work` gives for each, in order; of so many bytes in all.
pub(crate) fn each<T: Sync, R: Send>(all: &[T], bytes: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let helpers = Helpers::for_work_on(bytes);
    let parts = all.chunks(all.len().div_ceil(helpers.0 + 1).max(1));
    let found = map(helpers.0 + 1, parts, |some| some.iter().map(&work).collect::<Vec<R>>());
    found.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_however_many_help() {
        let all: Vec<usize> = (0..1000).collect();
        let twice: Vec<usize> = all.iter().map(|n| n * 2).collect();
        for bytes in [0, FEW, usize::MAX] {
            assert_eq!(each(&all, bytes, |n| n * 2), twice);
        }
        assert_eq!(each(&[0; 0], FEW, |n: &usize| *n), [0; 0]);
        // A worker that helps itself to others' time leaves none to the next.
        let (one, other) = (Helpers::for_work_on(FEW), Helpers::for_work_on(FEW));
        let all = processors() - 1;
        assert!(one.0 + other.0 <= all && one.0 < MOST && other.0 < MOST);
    }
}
