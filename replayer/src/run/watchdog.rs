//! A look at the workers from outside: a call that never comes back (a stream that waits for a value nobody
//! writes, a kernel that spins) is not ended, but named.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// So long may nothing come to an end.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What each worker is inside of.
pub struct Watchdog {
    /// By lane: the number of the call, or [`NONE`].
    inside: Vec<AtomicU64>,
    /// Calls that came back.
    done: Vec<AtomicU64>,
    ended: Mutex<bool>,
    end: Condvar,
}

const NONE: u64 = u64::MAX;

impl Watchdog {
    pub fn new(lanes: usize) -> Watchdog {
        Watchdog {
            inside: (0..lanes).map(|_| AtomicU64::new(NONE)).collect(),
            done: (0..lanes).map(|_| AtomicU64::new(0)).collect(),
            ended: Mutex::new(false),
            end: Condvar::new(),
        }
    }

    /// The lane's worker makes this call.
    pub fn within<T>(&self, lane: usize, call: u64, work: impl FnOnce() -> T) -> T {
        self.inside[lane].store(call, Relaxed);
        let done = work();
        self.inside[lane].store(NONE, Relaxed);
        self.done[lane].fetch_add(1, Relaxed);
        done
    }

    /// Looks on until [`end`](Watchdog::end), and calls `tell` once whenever nothing has come back for as
    /// long as `patience` says of the calls that workers are inside of.
    pub fn watch(&self, patience: impl Fn(&[u64]) -> Duration, tell: impl Fn(&[u64])) {
        let (mut seen, mut since, mut told) = (0, Instant::now(), false);
        let mut ended = self.ended.lock();
        while !*ended {
            self.end.wait_for(&mut ended, patience(&[]) / 8);
            let done = self.done.iter().map(|done| done.load(Relaxed)).sum::<u64>();
            let mut inside: Vec<u64> = self.inside.iter().map(|call| call.load(Relaxed)).collect();
            inside.retain(|call| *call != NONE);
            if done != seen || inside.is_empty() {
                (seen, since, told) = (done, Instant::now(), false);
            } else if !told && !*ended && since.elapsed() >= patience(&inside) {
                inside.sort_unstable();
                tell(&inside);
                told = true;
            }
        }
    }

    pub fn end(&self) {
        *self.ended.lock() = true;
        self.end.notify_all();
    }
}

/// Has `work` watched: one lane, one call.
pub fn watched<T: Send>(tell: impl Fn() + Sync, work: impl FnOnce() -> T) -> T {
    let watchdog = Watchdog::new(1);
    std::thread::scope(|scope| {
        scope.spawn(|| watchdog.watch(|_| PATIENCE, |_| tell()));
        let _end = EndAtLast(&watchdog);
        watchdog.within(0, 0, work)
    })
}

/// Ends the watch also when the work panics.
pub struct EndAtLast<'s>(pub &'s Watchdog);

impl Drop for EndAtLast<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(40);

    #[test]
    fn a_call_that_does_not_come_back_is_named_once() {
        let watchdog = Watchdog::new(3);
        let told = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| watchdog.watch(|_| SHORT, |calls| told.lock().push(calls.to_vec())));
            let _end = EndAtLast(&watchdog);
            scope.spawn(|| watchdog.within(2, 9, || std::thread::sleep(6 * SHORT)));
            watchdog.within(0, 7, || std::thread::sleep(6 * SHORT));
        });
        assert_eq!(told.into_inner(), [[7, 9]]);
    }

    #[test]
    fn calls_that_come_back_and_lanes_that_wait_for_each_other_are_no_stall() {
        let watchdog = Watchdog::new(2);
        let told = Mutex::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| watchdog.watch(|_| SHORT, |_| *told.lock() += 1));
            let _end = EndAtLast(&watchdog);
            for call in 0..20 {
                watchdog.within(0, call, || std::thread::sleep(SHORT / 8));
            }
            std::thread::sleep(4 * SHORT);
        });
        assert_eq!(told.into_inner(), 0);
    }
}
