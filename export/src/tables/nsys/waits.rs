//! Waits in CUPTI's form: of the host for a stream, an event or a context, and of streams for events, with
//! the times of the calls.

use super::rows::{Cell, Store};
use super::schema::Wait;
use super::{Nsys, labels};
use crate::events::event::Event;
use analysis::error::Result;
use foldhash::HashMap;
use trace::Function;
use trace::api::effect::Work;
use trace::api::roles::Class;
use trace::api::table::Awaited;
use trace::api::types::Kind;

/// CUPTI_SYNCHRONIZATION_INVALID_VALUE: what is waited for is nothing of that kind.
const NONE: Cell = Cell::Integer(u32::MAX as i64);

/// The contexts of events.
#[derive(Default)]
pub(super) struct Events {
    /// With how many contexts of that handle had ended before: the end of one passes no event in review.
    recorded: HashMap<u64, (u64, u64)>,
    ended: HashMap<u64, u64>,
}

impl Events {
    fn recorded(&mut self, event: u64, context: u64) {
        self.recorded.insert(event, (context, self.ends_of(context)));
    }

    fn remove(&mut self, event: u64) {
        self.recorded.remove(&event);
    }

    fn context_ended(&mut self, context: u64) {
        *self.ended.entry(context).or_default() += 1;
    }

    /// None if it has ended since.
    fn context_of(&self, event: u64) -> Option<u64> {
        let (context, ends) = *self.recorded.get(&event)?;
        (self.ends_of(context) == ends).then_some(context)
    }

    fn ends_of(&self, context: u64) -> u64 {
        self.ended.get(&context).copied().unwrap_or(0)
    }
}

impl<'t, S: Store> Nsys<'_, 't, S> {
    pub(super) fn wait(&mut self, event: &Event<'_, 't>) -> Result<()> {
        let (call, streams) = (&event.call, &event.outstanding.streams);
        let took_effect = call.succeeded() && !call.inner && !event.followed.is_captured;
        let (Some(function), Some(end)) = (call.function().filter(|_| took_effect), call.end) else { return Ok(()) };
        let Some(kind) = kind(function) else { return Ok(()) };
        let current = streams.contexts.current(call.thread);
        let (mut stream, mut of) = (NONE, NONE);
        let context = match function.awaited() {
            Some(Awaited::Context(at)) => Awaited::context(at, |at| call.word(at)).or(current),
            Some(Awaited::Events(_)) => {
                of = Cell::None;
                call.handle(Kind::Event).and_then(|event| self.events.context_of(event))
            }
            awaited => {
                let id = streams.target(call, function).stream;
                stream = streams.order.index_of(id).and_then(|at| self.numbers.stream(at)).into();
                // A stream's own wait is for an event.
                of = if awaited.is_none() { Cell::None } else { NONE };
                streams.order.context_of(id)
            }
        };
        let device = context.and_then(|context| streams.contexts.device_of(context));
        self.rows.add_row(Wait {
            start: self.process.nanoseconds(call.begin).into(),
            end: self.process.nanoseconds(end).into(),
            deviceId: device.map(i64::from).into(),
            contextId: context.and_then(|context| self.numbers.context(context)).into(),
            streamId: stream,
            correlationId: call.number.into(),
            globalPid: self.process_id().into(),
            syncType: kind.into(),
            eventId: of,
            ..Wait::default()
        })
    }

    /// An event is of the context whose streams it is recorded on, as long as both are there.
    pub(super) fn follow_events(&mut self, event: &Event<'_, 't>) {
        let (call, streams) = (&event.call, &event.outstanding.streams);
        let ended = call.function().filter(|_| call.took_effect()).and_then(|function| function.ends(Kind::Event));
        if let Some(event) = ended.and_then(|at| call.argument_of(at)) {
            self.events.remove(event);
        }
        event.followed.ended.iter().filter_map(|ended| ended.context).for_each(|of| self.events.context_ended(of));
        let records = |function: &&Function| function.work() == Some(Work::RecordEvent) && call.took_effect();
        let Some(function) = call.function().filter(records).filter(|_| !call.inner) else { return };
        let context = match call.handle(Kind::Context) {
            None => streams.order.context_of(streams.target(call, function).stream),
            context => context,
        };
        if let (Some(event), Some(context)) = (call.handle(Kind::Event), context) {
            self.events.recorded(event, context);
        }
    }
}

/// None of calls that wait for nothing, and of those by which all streams of a context wait.
fn kind(function: &Function) -> Option<i64> {
    if function.work() == Some(Work::AwaitEvent) {
        return function.handle(Kind::Stream).map(|_| labels::STREAM_WAIT);
    }
    Some(match function.awaited().filter(|_| function.class == Class::synchronize)? {
        Awaited::Events(_) => labels::EVENT_SYNC,
        Awaited::Stream(_) => labels::STREAM_SYNC,
        Awaited::Context(_) => labels::CONTEXT_SYNC,
    })
}

#[cfg(test)]
mod tests {
    use super::Events;

    #[test]
    fn an_event_is_of_its_context_until_that_ends() {
        let mut events = Events::default();
        events.recorded(7, 1);
        events.recorded(8, 2);
        events.context_ended(1);
        assert_eq!((events.context_of(7), events.context_of(8), events.context_of(9)), (None, Some(2), None));
        // Another context has the handle.
        events.recorded(9, 1);
        assert_eq!((events.context_of(7), events.context_of(9)), (None, Some(1)));
        events.recorded(7, 1);
        events.remove(9);
        assert_eq!((events.context_of(7), events.context_of(9)), (Some(1), None));
    }
}
