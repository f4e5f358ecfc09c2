//! Device times, on the clock of the recorded calls.
//!
//! The times are a replay's or the recording's own. Work timed by a replay keeps its duration, and is placed
//! as long after its recorded call as it began after the replay's, or behind the earlier work on its stream.

use std::collections::HashMap;
use trace::Trace;
use trace::read::device_times::{ByCall, Work};

/// Device, context and stream, as the source of the times counts them.
pub(crate) type Queue = (u32, u32, u32);

pub(crate) struct Placed<'t> {
    works: ByCall<'t>,
    /// When the last work ends.
    ends: HashMap<Queue, i64>,
}

/// Work with its device times: nanoseconds since the start of the trace.
pub(crate) struct Slice<'t> {
    pub work: Work<'t>,
    pub start: i64,
    pub end: i64,
}

pub(crate) fn queue(work: &Work) -> Queue {
    (work.about.device, work.about.context, work.about.stream)
}

impl<'t> Placed<'t> {
    pub(crate) fn new(trace: &'t Trace) -> Placed<'t> {
        Placed { works: ByCall::new(trace), ends: HashMap::new() }
    }

    /// What the call gave to devices, without a place.
    pub(crate) fn works(&self, call: u64) -> impl Iterator<Item = Work<'t>> {
        self.works.call(call)
    }

    /// What the call gave to devices. `begin`: of the recorded call, in nanoseconds.
    pub(crate) fn call(&mut self, call: u64, begin: i64) -> Vec<Slice<'t>> {
        let Placed { works, ends } = self;
        let place = |work: Work<'t>| {
            let last = ends.entry(queue(&work)).or_insert(i64::MIN);
            let start = begin.saturating_add(work.delay().max(0)).max(*last);
            let end = start.saturating_add(work.duration());
            *last = end;
            Slice { work, start, end }
        };
        works.call(call).map(place).collect()
    }
}
