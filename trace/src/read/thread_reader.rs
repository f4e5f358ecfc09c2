//! The calls of one thread while its chunks are read, one after the other: which of them have not returned
//! yet. Nearly all records are entries and returns about which there is nothing to be told.

use crate::file::call_table::Calls;
use crate::file::repeats::Run;
use crate::read::reader::Trace;
use crate::read::record_runs::{Last, Stretch, Stretches};

/// What carries over from one chunk of a thread to the next.
#[derive(Default)]
pub(crate) struct Lane {
    /// Calls without a return so far.
    pub(crate) open: Open,
    /// The latest entry or return. A thread's calls follow each other whatever their stamps say, or the order
    /// of calls could have circles in it.
    pub(crate) latest: u64,
    /// Calls that claim to have been made inside another that has not returned yet, where they stand in the
    /// index.
    pub(crate) inner: Vec<usize>,
    /// The latest call that stands for others, if it is the thread's last.
    pub(crate) run: Option<usize>,
    /// Something of this thread is known to be gone: returns may lack their entries.
    pub(crate) has_gaps: bool,
}

impl Lane {
    /// The call at this place returns. The recorder can be wrong about a call that something was left
    /// through: only what began in between an entry and its return was made inside.
    pub(crate) fn leave_inner(&mut self, place: usize, calls: &mut Calls) {
        while let Some(inner) = self.inner.pop_if(|inner| *inner > place) {
            calls.set_inner(inner);
        }
    }
}

/// Calls without a return so far, in the order of their numbers on the thread: where each stands in the
/// index. Nearly always the last is the next to return.
#[derive(Default)]
pub(crate) struct Open(Vec<(u32, Option<usize>)>);

impl Open {
    pub(crate) fn enter(&mut self, sequence: u32, index: usize) {
        // In a forged file numbers come again: returns are then those of the later calls.
        while self.0.pop_if(|(of, _)| *of >= sequence).is_some() {}
        self.0.push((sequence, Some(index)));
    }

    pub(crate) fn leave(&mut self, sequence: u32) -> Option<usize> {
        let at = match self.0.last() {
            Some((last, _)) if *last == sequence => self.0.len() - 1,
            _ => self.0.binary_search_by_key(&sequence, |(of, _)| *of).ok()?,
        };
        let index = self.0[at].1.take();
        while self.0.pop_if(|(_, index)| index.is_none()).is_some() {}
        index
    }

    /// Whether all have lower numbers.
    pub(crate) fn are_before(&self, sequence: u32) -> bool {
        self.0.last().is_none_or(|(last, _)| *last < sequence)
    }

    pub(crate) fn has(&self, sequence: u32) -> bool {
        let found = self.0.binary_search_by_key(&sequence, |(of, _)| *of);
        found.is_ok_and(|at| self.0[at].1.is_some())
    }
}

impl Trace {
    /// Takes in a stretch of the chunk whose records begin at `start`, if it fits what came before it: the call
    /// that its last record is the return of, and when that was. `sequence`: the number of the thread's next
    /// call.
    pub(crate) fn joins(
        &mut self,
        found: &Stretches,
        stretch: &Stretch,
        (thread, sequence, start): (u32, u32, u64),
        lane: &mut Lane,
    ) -> Option<Option<(usize, u64)>> {
        let (calls, before) = (found.calls(stretch), found.returns_before(stretch));
        // One that does not fit, as its first entry's time goes back, is read record by record.
        let fits = stretch.first == sequence
            && stretch.entered().is_none_or(|(earliest, _)| earliest >= lane.latest)
            && lane.open.are_before(stretch.first)
            && before.iter().all(|of| lane.open.has(of.call));
        let place = fits.then(|| self.calls.extend(calls))??;
        let mut last = match stretch.last {
            Last::Return(at, stamp) => Some((place + at as usize, stamp)),
            Last::Entry | Last::ReturnBefore(..) => None,
        };
        for of in before {
            let left = lane.open.leave(of.call);
            debug_assert!(left.is_some(), "asked above");
            let Some(place) = left else { continue };
            // Those of the stretch were made after all that claim to be inside another.
            lane.leave_inner(place, &mut self.calls);
            self.calls.set_return(place, start + u64::from(of.at));
            if let Last::ReturnBefore(call, stamp) = stretch.last
                && call == of.call
            {
                last = Some((place, stamp));
            }
        }
        for open in found.open(stretch) {
            lane.open.enter(open.call, place + open.place as usize);
        }
        if let Some((_, latest)) = stretch.entered() {
            lane.latest = latest;
            if let Some(run) = lane.run.take() {
                self.calls.set_run(run, Run::Counted);
            }
        }
        if let Some(thread) = self.threads.get_mut(thread as usize) {
            thread.calls += calls.len() as u64;
        }
        Some(last)
    }
}
