//! Work shared among threads. The calling thread takes a share too: if a limit (of the user or of a control
//! group) forbids more threads, fewer do the work.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};

/// Number of processors that this process may use, at least 1.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Does `work` with each, by at most as many threads, each of which takes the next when it is done with one.
pub fn share<T: Send>(threads: usize, all: impl IntoIterator<Item = T>, work: impl Fn(T) + Sync) {
    let all: Vec<T> = all.into_iter().collect();
    let helpers = threads.min(all.len()).saturating_sub(1);
    let left = Mutex::new(all.into_iter());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let take = || {
        while let Some(one) = next() {
            work(one);
        }
    };
    thread::scope(|scope| {
        for _ in 0..helpers {
            let _fewer = Builder::new().spawn_scoped(scope, take);
        }
        take();
    });
}

/// What `work` gives for each, in their order.
pub fn map<T: Send, R: Send>(threads: usize, all: impl IntoIterator<Item = T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let found = Mutex::new(Vec::new());
    share(threads, all.into_iter().enumerate(), |(at, one)| {
        let result = work(one);
        found.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, result)| result).collect()
}

/// Both at a time; `other` after `own` where no thread has begun it. Neither may wait for the other.
pub fn both<A: Send, B>(other: impl FnOnce() -> A + Send, own: impl FnOnce() -> B) -> (A, B) {
    let left = Mutex::new(Some(other));
    let begin = || {
        let other = left.lock().unwrap_or_else(PoisonError::into_inner).take();
        other.map(|other| other())
    };
    thread::scope(|scope| {
        let helper = Builder::new().spawn_scoped(scope, begin);
        let own = own();
        let other = begin().or_else(|| helper.ok()?.join().unwrap_or_else(|panic| resume_unwind(panic)));
        (other.expect("one of the two threads took it"), own)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_however_many_threads_there_are() {
        for threads in [0, 1, 3, 64] {
            assert_eq!(map(threads, 0..1000, |n| n * 2), (0..1000).map(|n| n * 2).collect::<Vec<_>>());
            assert!(map(threads, [], |n: u8| n).is_empty());
        }
        assert_eq!(both(|| 1, || 2), (1, 2));
    }
}
