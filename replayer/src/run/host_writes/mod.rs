//! The recorded CPU writes, in the order in which they were found, and the replay's progress through them.

pub(crate) mod apply;

use crate::tally::Tally;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use trace::Trace;
use trace::read::host_writes::FoundWrite;

/// What a callback has waited for may have been left out, or wait for the callback here.
const PATIENCE: Duration = Duration::from_millis(100);

/// All CPU writes found before calls, in the order in which they were found. Another thread's call may have
/// found a thread's write before the writer made its own call, so each write is complete for every call that
/// began after it was found.
pub(crate) struct HostWrites<'t> {
    found: Vec<FoundWrite<'t>>,
    /// Those before this one are written.
    frontier: AtomicUsize,
    turn: Mutex<()>,
    /// What was written to let kernels go.
    early: Mutex<Tally>,
}

impl<'t> HostWrites<'t> {
    pub(crate) fn from_trace(trace: &'t Trace) -> HostWrites<'t> {
        HostWrites {
            found: trace.found_writes(),
            frontier: AtomicUsize::new(0),
            turn: Mutex::default(),
            early: Mutex::default(),
        }
    }

    pub(crate) fn any(&self) -> bool {
        !self.found.is_empty()
    }

    /// How long calls may take before what the CPU wrote while they waited is written again: it may not be
    /// what they wait for.
    pub(crate) fn patience(&self, trace: &Trace, calls: &[u64]) -> Duration {
        const LEAST: Duration = Duration::from_secs(1);
        let recorded = |call: &u64| {
            let call = trace.call(*call)?;
            let took = trace.nanoseconds(call.end?) - trace.nanoseconds(call.begin);
            Some(Duration::from_nanos(took.max(0) as u64))
        };
        let longest = calls.iter().filter_map(recorded).max().unwrap_or_default();
        LEAST.max(2 * longest)
    }

    /// Once all calls have been made.
    pub(crate) fn close(&self, tally: &mut Tally) {
        tally.add(std::mem::take(&mut *self.early.lock()));
    }

    /// Whether any of it was in managed memory.
    pub(crate) fn has_seen(&self) -> bool {
        self.found.iter().any(|found| found.written.is_seen())
    }

    /// How much of it is written.
    pub(crate) fn position(&self) -> usize {
        self.frontier.load(Acquire)
    }

    /// Whether something is written here that had not been found in this memory by that time when recorded,
    /// or the other way round. `position`: from when on.
    pub(crate) fn are_otherwise(&self, time: u64, memory: &Range<u64>, position: usize) -> bool {
        let then = self.found.partition_point(|found| found.time <= time);
        let between = then.min(position)..then.max(self.position());
        let mut images =
            self.found[between].iter().flat_map(|found| found.written.images()).map(|image| image.memory());
        images.any(|written| written.start < memory.end && memory.start < written.end)
    }

    /// Waits until what had been found by that time is written; false if it does not come.
    pub(crate) fn wait_until(&self, time: u64) -> bool {
        let then = self.found.partition_point(|found| found.time <= time);
        let until = Instant::now() + PATIENCE;
        while self.position() < then {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        true
    }
}
