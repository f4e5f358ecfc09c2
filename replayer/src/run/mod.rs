//! The run: one worker per recorded thread, each call after the return of all that preceded it.
//!
//! Imports `options.rs`, `diagnose/` and the layers below.

pub(crate) mod callbacks;
pub(crate) mod copy_events;
pub(crate) mod decision;
pub(crate) mod dump;
pub(crate) mod execute;
pub(crate) mod finish;
pub(crate) mod hang_report;
pub(crate) mod hazards;
pub(crate) mod host_writes;
pub(crate) mod lifetimes;
pub(crate) mod partial_words;
pub(crate) mod profiler_marks;
pub(crate) mod quiesce;
pub(crate) mod readbacks;
pub(crate) mod repeat;
pub(crate) mod results;
pub(crate) mod side_stream;
pub(crate) mod state;
pub(crate) mod texture_ids;
pub(crate) mod watchdog;
pub(crate) mod work;
pub(crate) mod worker;

use crate::base::error::Error;
use crate::options::Progress;
use crate::plan::order::partial_order::Gate;
use crate::run::host_writes::apply;
use crate::run::state::Run;
use crate::run::watchdog::{EndAtLast, Watchdog};
use crate::run::worker::Worker;
use crate::tally::Tally;
use parking_lot::Mutex;
use std::time::Duration;

/// Runs all lanes, each begun when its first call may start.
pub(crate) fn lanes(run: &Run, limit: Option<Duration>, progress: &dyn Progress) -> Result<Tally, Error> {
    let order = &run.plan.order;
    let gate = Gate::new(order.calls);
    let total = Mutex::new(Tally::default());
    let watchdog = Watchdog::new(order.lanes.len());
    let ended = std::thread::scope(|scope| {
        let _end = EndAtLast(&watchdog);
        if let Err(error) = hang_report::attend(scope, run, &watchdog, limit, progress) {
            return Some(error);
        }
        let (watchdog, patience) = (&watchdog, |calls: &[u64]| run.host_writes.patience(run.trace, calls));
        if run.host_writes.any() {
            let watch = move || watchdog.watch(patience, |calls| apply::let_go(run, calls));
            if let Err(source) = std::thread::Builder::new().spawn_scoped(scope, watch) {
                return Some(Error::Watch { source });
            }
        }
        let mut workers = Vec::new();
        let mut refused = None;
        for (index, lane) in order.lanes.iter().enumerate() {
            if lane.steps[0].call >= run.end {
                continue;
            }
            if gate.wait(lane.steps[0].after).is_err() {
                break;
            }
            let (gate, total) = (&gate, &total);
            let work = move || {
                let _abort = AbortOnPanic(gate);
                let mut worker = Worker { run, thread: lane.thread, tally: Tally::default() };
                worker.follow(lane, gate, watchdog, index, progress);
                total.lock().add(worker.tally);
            };
            match std::thread::Builder::new().spawn_scoped(scope, work) {
                Ok(worker) => workers.push(worker),
                Err(source) => {
                    refused = Some(Error::Thread { thread: lane.thread, source });
                    gate.abort();
                    break;
                }
            }
        }
        let ends: Vec<bool> = workers.into_iter().map(|worker| worker.join().is_err()).collect();
        if ends.contains(&true) { Some(Error::Worker) } else { refused }
    });
    match ended {
        Some(error) => Err(error),
        None => Ok(total.into_inner()),
    }
}

struct AbortOnPanic<'g>(&'g Gate);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abort();
        }
    }
}
