//! The watchdog of the workers: it names a call that never returns (a stream that waits for a value nobody
//! writes, a kernel that spins), but does not end it.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// So long may nothing come to an end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The present call of each worker.
pub(crate) struct Watchdog {
    /// By lane: the number of the call, or [`NONE`].
    inside: Vec<AtomicU64>,
    /// Calls that came back.
    done: Vec<AtomicU64>,
    ended: Mutex<bool>,
    end: Condvar,
}

const NONE: u64 = u64::MAX;

/// What was found when it was looked last.
struct LaneState {
    done: u64,
    inside: Vec<u64>,
    since: Instant,
    told: bool,
}

impl LaneState {
    fn new(now: Instant) -> LaneState {
        LaneState { done: 0, inside: Vec::new(), since: now, told: false }
    }

    /// The calls that have not come back for too long, the first time that this is found of them.
    fn look(&mut self, at: &Watchdog, now: Instant, patience: impl Fn(&[u64]) -> Duration) -> Option<Vec<u64>> {
        let done = at.done.iter().map(|done| done.load(Relaxed)).sum::<u64>();
        let mut inside: Vec<u64> = at.inside.iter().map(|call| call.load(Relaxed)).collect();
        inside.retain(|call| *call != NONE);
        if (done, &inside) != (self.done, &self.inside) || inside.is_empty() {
            *self = LaneState { done, inside, since: now, told: false };
        } else if !self.told && now.duration_since(self.since) >= patience(&inside) {
            inside.sort_unstable();
            self.told = true;
            return Some(inside);
        }
        None
    }
}

impl Watchdog {
    pub(crate) fn new(lanes: usize) -> Watchdog {
        Watchdog {
            inside: (0..lanes).map(|_| AtomicU64::new(NONE)).collect(),
            done: (0..lanes).map(|_| AtomicU64::new(0)).collect(),
            ended: Mutex::new(false),
            end: Condvar::new(),
        }
    }

    /// The lane's worker makes this call.
    pub(crate) fn watch_call<T>(&self, lane: usize, call: u64, work: impl FnOnce() -> T) -> T {
        self.inside[lane].store(call, Relaxed);
        let done = work();
        self.inside[lane].store(NONE, Relaxed);
        self.done[lane].fetch_add(1, Relaxed);
        done
    }

    /// The call that the lane's worker is inside of, to be told of the next one where it makes many.
    pub(crate) fn lane(&self, lane: usize) -> &AtomicU64 {
        &self.inside[lane]
    }

    /// Looks on until [`end`](Watchdog::end), and calls `tell` once whenever nothing has come back for as
    /// long as `patience` says of the calls that workers are inside of.
    pub(crate) fn watch(&self, patience: impl Fn(&[u64]) -> Duration, tell: impl Fn(&[u64])) {
        let mut seen = LaneState::new(Instant::now());
        let mut ended = self.ended.lock();
        while !*ended {
            self.end.wait_for(&mut ended, patience(&[]) / 8);
            if *ended {
                return;
            }
            if let Some(stalled) = seen.look(self, Instant::now(), &patience) {
                tell(&stalled);
            }
        }
    }

    pub(crate) fn end(&self) {
        *self.ended.lock() = true;
        self.end.notify_all();
    }
}

/// Has `work` watched, and tells once that it takes longer than this: one lane, one call. It is done unwatched where
/// there can be no thread.
pub(crate) fn watched<T>(patience: Duration, tell: impl Fn() + Sync, work: impl FnOnce() -> T) -> T {
    let watchdog = Watchdog::new(1);
    std::thread::scope(|scope| {
        let watch = || watchdog.watch(|_| patience, |_| tell());
        let _unwatched = std::thread::Builder::new().spawn_scoped(scope, watch);
        let _end = EndAtLast(&watchdog);
        watchdog.watch_call(0, 0, work)
    })
}

/// Ends the watch even if the work panics.
pub(crate) struct EndAtLast<'s>(pub &'s Watchdog);

impl Drop for EndAtLast<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(40);

    /// What is told when it is looked so often, at intervals of a quarter of the patience; `before` comes
    /// before each look.
    fn told(watchdog: &Watchdog, looks: u32, mut before: impl FnMut(u32)) -> Vec<Vec<u64>> {
        let begun = Instant::now();
        let mut seen = LaneState::new(begun);
        let mut look = |turn| {
            before(turn);
            seen.look(watchdog, begun + turn * SHORT / 4, |_| SHORT)
        };
        (0..looks).filter_map(&mut look).collect()
    }

    #[test]
    fn a_call_that_does_not_come_back_is_named_once() {
        let watchdog = Watchdog::new(3);
        watchdog.watch_call(2, 9, || {
            watchdog.watch_call(0, 7, || {
                assert_eq!(told(&watchdog, 4, |_| ()), [[0; 0]; 0]);
                assert_eq!(told(&watchdog, 20, |_| ()), [[7, 9]]);
            });
            // Of those that are left it is said again.
            assert_eq!(told(&watchdog, 20, |_| ()), [[9]]);
        });
        assert_eq!(told(&watchdog, 20, |_| ()), [[0; 0]; 0]);
    }

    #[test]
    fn calls_that_come_back_and_lanes_that_wait_for_each_other_are_no_stall() {
        let watchdog = Watchdog::new(2);
        // Between two looks it is the same call, and another time that it is made.
        let again = |_| watchdog.watch_call(1, 5, || ());
        watchdog.watch_call(0, 5, || assert_eq!(told(&watchdog, 20, again), [[0; 0]; 0]));
        let next = |_| _ = watchdog.lane(0).fetch_add(1, Relaxed);
        watchdog.watch_call(0, 5, || assert_eq!(told(&watchdog, 20, next), [[0; 0]; 0]));
        assert_eq!(told(&watchdog, 20, |_| ()), [[0; 0]; 0]);
    }

    #[test]
    fn who_watches_is_told_and_ends() {
        let watchdog = Watchdog::new(1);
        let calls = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| watchdog.watch(|_| SHORT, |stalled| calls.lock().push(stalled.to_vec())));
            let _end = EndAtLast(&watchdog);
            watchdog.watch_call(0, 7, || {
                while calls.lock().is_empty() {
                    std::thread::sleep(SHORT / 8);
                }
            });
        });
        assert_eq!(calls.into_inner(), [[7]]);
    }
}
