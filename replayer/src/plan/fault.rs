//! The failure of work done earlier, as the recorded program came to know it.
//!
//! No two runs hear of such a failure at the same call. The replay may hear of it as soon as the work that can have
//! failed is under way: from the first submission on that no successful wait had covered when the program heard of it.
//! A failure before that is another one.

use crate::driver::result::is_sticky;
use std::collections::HashMap;
use trace::api::roles::{Class, Role};
use trace::api::table::Awaited;
use trace::model::stream::StreamId;
use trace::{Call, Function};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub code: u32,
    /// The first call that may fail with it.
    pub since: u64,
    /// The call by which the program heard of it.
    pub heard: u64,
}

#[derive(Default)]
pub struct Faults {
    first: Option<Fault>,
    /// The first submission to each stream that no wait has covered, and the context that was current.
    open: HashMap<StreamId, (u64, u64)>,
    /// Where events were recorded, and by which call.
    events: HashMap<u64, (StreamId, u64)>,
}

impl Faults {
    /// `context`: current on the thread of the call; 0 if nothing tells. `stream`: where it puts work, or what it waits for.
    pub fn see(&mut self, call: &Call, function: &Function, context: u64, stream: StreamId) {
        if self.first.is_some() {
            return;
        }
        if let Some(code) = call.result.filter(|code| is_sticky(*code)) {
            let since = self.open.values().map(|(_, call)| *call).min().unwrap_or(call.number).min(call.number);
            self.first = Some(Fault { code, since, heard: call.number });
            return;
        }
        if !call.succeeded() {
            return;
        }
        match function.awaited() {
            Some(Awaited::Events(events)) => events.into_iter().for_each(|at| self.event_came(call.word(at))),
            Some(Awaited::Context(at)) => {
                let waited = Awaited::context(at, |at| call.word(at)).unwrap_or(context);
                self.open.retain(|_, (context, _)| *context != waited);
            }
            Some(Awaited::Stream(_)) => _ = self.open.remove(&stream),
            None if matches!(function.common_name(), "cuEventRecord" | "cuEventRecordWithFlags") => {
                self.events.insert(call.argument("hEvent").unwrap_or(0), (stream, call.number));
            }
            None => match function.class {
                Class::launch | Class::submit => {
                    self.open.entry(stream).or_insert((context, call.number));
                }
                // The bytes are there, so what was on the stream before them is done.
                Class::copy if function.params.iter().any(|param| matches!(param.role, Role::Sink(_))) => {
                    self.open.remove(&stream);
                }
                _ => {}
            },
        }
    }

    /// The program was told that this event has happened.
    fn event_came(&mut self, event: u64) {
        if let Some((stream, call)) = self.events.get(&event)
            && let Some((_, first)) = self.open.get_mut(stream)
        {
            // Everything before the event is done; what came after it began there at the earliest.
            *first = (*first).max(*call);
        }
    }

    pub fn first(&self) -> Option<Fault> {
        self.first
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::plan;
    use crate::sample::Sample;

    const AT: u64 = 0x7f00_1234_0000;
    const ILLEGAL_ADDRESS: u32 = 700;

    /// cuInit, a launch, then the calls of `between`, a launch at time 100, and a failure.
    fn since(between: impl Fn(&mut Sample)) -> u64 {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample.launch(0, 10..11, AT);
        between(&mut sample);
        sample.launch(0, 100..101, AT);
        sample.failed(0, "cuCtxSynchronize", 110..120, ILLEGAL_ADDRESS, &[]);
        let fault = plan(&sample.trace()).fault.expect("a fault");
        assert_eq!(fault.code, ILLEGAL_ADDRESS);
        fault.since
    }

    #[test]
    fn work_that_was_waited_for_did_not_fail() {
        assert_eq!(since(|_| {}), 1);
        assert_eq!(since(|sample| sample.call(0, "cuCtxSynchronize", 20..21, &[], &[])), 3);
        assert_eq!(since(|sample| sample.call(0, "cuStreamSynchronize", 20..21, &[0], &[])), 3);
        assert_eq!(since(|sample| sample.copy_out(0, 20..21, AT, 100)), 3);
        // The same stream by its other name; another one tells nothing.
        assert_eq!(since(|sample| sample.call(0, "cuStreamSynchronize", 20..21, &[1], &[])), 3);
        assert_eq!(since(|sample| sample.call(0, "cuStreamSynchronize", 20..21, &[2], &[])), 1);
        assert_eq!(since(|sample| sample.call(0, "cuStreamSynchronize", 20..21, &[0x50], &[])), 1);
    }

    #[test]
    fn an_event_covers_what_was_before_it() {
        let with_event = |sample: &mut Sample| {
            sample.call(0, "cuEventRecord", 20..21, &[0xe0, 0], &[]);
            sample.launch(0, 22..23, AT);
            sample.call(0, "cuEventSynchronize", 30..31, &[0xe0], &[]);
        };
        assert_eq!(since(with_event), 2);
    }
}
