//! Calls that the program made in a callback. The driver refuses most of them there, so a run of the callback
//! makes them, on behalf of the worker that owns them.

use crate::plan::order::partial_order::Order;
use crate::run::callbacks::CallbackRun;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use trace::Trace;

/// So long a call waits for the run, and the run for its next call: what comes before either may have been
/// left out.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(crate) struct CallsInside {
    /// By call: the place of the run in which it was made.
    runs: HashMap<u64, usize>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// By run: how many calls are to come.
    left: HashMap<usize, usize>,
    /// Runs that take no more calls.
    over: HashSet<usize>,
    /// By run: what its thread is to do.
    jobs: HashMap<usize, Job>,
}

#[derive(Clone, Copy)]
enum Job {
    Posted(&'static (dyn Fn() + Sync)),
    UnderWay,
}

impl CallsInside {
    /// Of the calls below `end`.
    pub(crate) fn new(trace: &Trace, order: &Order, end: u64, runs: &[CallbackRun]) -> CallsInside {
        let mut inside = CallsInside::default();
        // A step belongs to one run, also where a damaged trace has two at a time on one thread.
        let mut next: HashMap<u32, usize> = HashMap::new();
        for (at, run) in runs.iter().enumerate() {
            let Some(lane) = order.lanes.iter().find(|lane| lane.thread == run.thread) else { continue };
            let [from, to] = [run.begin, run.end].map(|time| trace.call_from(time).min(end));
            let [from, to] = [from, to].map(|call| lane.steps.partition_point(|step| step.call < call));
            let next = next.entry(run.thread).or_default();
            let steps = lane.steps.get(from.max(*next)..to).unwrap_or_default();
            *next = to.max(*next);
            inside.runs.extend(steps.iter().map(|step| (step.call, at)));
            if !steps.is_empty() {
                inside.state.get_mut().left.insert(at, steps.len());
            }
        }
        inside
    }

    pub(crate) fn run_of(&self, call: u64) -> Option<usize> {
        self.runs.get(&call).copied()
    }

    /// The worker is done with the call, whether or not it was made.
    pub(crate) fn passed(&self, call: u64) {
        if let Some(run) = self.run_of(call) {
            let mut state = self.state.lock();
            state.left.entry(run).and_modify(|left| *left = left.saturating_sub(1));
            self.changed.notify_all();
        }
    }

    /// The run does not come, or takes no more calls.
    pub(crate) fn is_over(&self, run: usize) {
        if !self.runs.is_empty() {
            self.state.lock().over.insert(run);
            self.changed.notify_all();
        }
    }

    /// Has the run's thread do this: none if it does not come to it.
    pub(crate) fn make(&self, run: usize, call: impl Fn() -> u32 + Sync) -> Option<u32> {
        let result = Mutex::new(None);
        let job = || *result.lock() = Some(call());
        let job: &(dyn Fn() + Sync) = &job;
        // SAFETY: whoever takes the job says so under the lock, and is waited for; nobody takes one that was
        // withdrawn under it.
        let job: &'static (dyn Fn() + Sync) = unsafe { std::mem::transmute(job) };
        let mut state = self.state.lock();
        state.jobs.insert(run, Job::Posted(job));
        self.changed.notify_all();
        let until = Instant::now() + PATIENCE;
        loop {
            match state.jobs.get(&run) {
                Some(Job::UnderWay) => self.changed.wait(&mut state),
                Some(Job::Posted(_)) if state.over.contains(&run) || Instant::now() >= until => {
                    state.jobs.remove(&run);
                    return None;
                }
                Some(Job::Posted(_)) => _ = self.changed.wait_until(&mut state, until),
                None => break,
            }
        }
        drop(state);
        result.into_inner()
    }

    /// On the thread of a run: makes its calls as they come.
    pub(crate) fn serve(&self, run: usize) {
        let mut state = self.state.lock();
        let mut until = Instant::now() + PATIENCE;
        while state.left.get(&run).is_some_and(|left| *left > 0) {
            if let Some(Job::Posted(job)) = state.jobs.get(&run).copied() {
                state.jobs.insert(run, Job::UnderWay);
                MutexGuard::unlocked(&mut state, job);
                state.jobs.remove(&run);
                self.changed.notify_all();
                until = Instant::now() + PATIENCE;
            } else if self.changed.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        drop(state);
        self.is_over(run);
    }
}
