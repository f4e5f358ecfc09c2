//! Contexts, captures, the order of work, and memory, advanced together call by call.

use super::captures::Captures;
use super::change::{Change, Moment, Scope};
use super::contexts::{Contexts, Ended};
use super::graph_memory::GraphMemory;
use super::memory::{Allocation, End, Memory};
use super::order::Order;
use super::stream::{StreamHandle, StreamId};
use crate::api::Function;
use crate::api::effect::Work;
use crate::read::call::Call;

/// The driver's state at one call of a trace.
#[derive(Default)]
pub struct Streams {
    /// Contexts and their devices.
    pub contexts: Contexts,
    pub(crate) captures: Captures,
    /// Streams and the order of their work.
    pub order: Order,
    /// Live memory.
    pub memory: Memory,
    pub(crate) graphs: GraphMemory,
}

/// The effects of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Followed {
    /// The contexts whose lives it ended.
    pub ended: Vec<Ended>,
    /// The stream, by its index in the order, on which it put work: also such that is done by now.
    pub put: Option<usize>,
    /// Whether that was done when the call returned.
    pub is_done: bool,
    /// Whether the work became part of a capture instead.
    pub is_captured: bool,
    /// Memory that it got, of a graph's launch several pieces, and what ended.
    pub made: Vec<Allocation>,
    /// Memory that ended, and how.
    pub gone: Vec<(Allocation, End)>,
}

/// The stream to which a call submits work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The stream that the call names.
    pub stream: StreamId,
    /// The stream that the capture began on which it becomes part of.
    pub capture: Option<StreamId>,
}

impl Streams {
    /// Where a call puts work, or would: on the stream that it names, or on its default stream, which is part
    /// of no capture.
    pub fn target(&self, call: &Call, function: &Function) -> Target {
        let handle = call.stream();
        let current = self.contexts.current(call.thread).unwrap_or(0);
        let stream = StreamHandle::new(function, handle.unwrap_or(0)).resolve(current, call.thread);
        Target { stream, capture: handle.and_then(|_| self.captures.origin(stream)) }
    }

    /// Follows what a call changed. `waits`: whether its work, if it puts any, was done when
    /// it returned, whatever the function.
    pub fn follow(&mut self, moment: Moment, change: &Change, waits: bool) -> Followed {
        let Moment { call, thread, .. } = moment;
        // Most calls: nothing else comes of them.
        if let Change::Submitted { on, work, exec } = *change
            && self.captures.are_none()
        {
            let put = self.submit(call, thread, on, waits);
            let mut gone = Vec::new();
            let made = if work == Work::Graph {
                self.graphs.launch(exec, moment, &mut self.memory, &mut gone)
            } else {
                vec![]
            };
            return Followed { put: Some(put), is_done: waits, made, gone, ..Followed::default() };
        }
        // Nor of these, outside of captures, than what is known of their order.
        if let Change::EventRecorded { .. }
        | Change::EventAwaited { .. }
        | Change::StreamFinished { .. }
        | Change::EventsFinished { .. }
        | Change::ContextFinished { .. } = *change
            && self.captures.are_forgotten()
        {
            let current = self.contexts.current(thread).unwrap_or(0);
            let put = self.apply(moment, change, current, |stream| stream.resolve(current, thread), waits);
            return Followed { put, is_done: waits, ..Followed::default() };
        }
        let ended = self.contexts.follow(thread, change);
        let current = self.contexts.current(thread).unwrap_or(0);
        let id = |stream: StreamHandle| stream.resolve(current, thread);
        let is_captured = self.captures.takes(change, id);
        let capture = match *change {
            Change::Allocated { on: Some(on), .. } | Change::Freed { on: Some(on), .. } => self.captures.origin(id(on)),
            Change::CaptureEnded { on, .. } => Some(id(on)),
            _ => None,
        };
        self.graphs.follow(change, capture, self.contexts.device_of_allocated(thread, change));
        self.captures.follow(change, id);
        let mut gone = Vec::new();
        let made = match *change {
            Change::Submitted { work: Work::Graph, exec, .. } if !is_captured => {
                self.graphs.launch(exec, moment, &mut self.memory, &mut gone)
            }
            _ if is_captured || capture.is_some() => Vec::new(),
            _ => self.memory.follow(moment, change, &self.contexts, &mut gone).into_iter().collect(),
        };
        let is_shared = |at| self.memory.find(at).is_some_and(|one| one.kind.is_in_reach());
        let is_done = waits || matches!(*change, Change::Copied { touched, .. } if touched.is_in_reach(is_shared));
        let put = if is_captured { None } else { self.apply(moment, change, current, id, is_done) };
        for one in &ended {
            let streams = one.context.map(|context| self.order.context_ended(context, call));
            streams.into_iter().flatten().for_each(|stream| self.captures.stream_ended(stream));
            gone.extend(self.memory.context_ended(one.owner).into_iter().map(|memory| (memory, End::WithContext)));
        }
        Followed { ended, put, is_done, is_captured, made, gone }
    }

    /// A call puts work on a stream. Which stream that is, by its index in the order.
    #[inline]
    pub(super) fn submit(&mut self, call: u64, thread: u32, on: StreamHandle, is_done: bool) -> usize {
        let current = self.contexts.current(thread).unwrap_or(0);
        let id = on.resolve(current, thread);
        let at = self.order.index_or_insert(id, current);
        self.order.submitted(at, call);
        if is_done {
            // It covers itself.
            self.order.stream_finished(id, call + 1);
        }
        at
    }

    fn apply(
        &mut self,
        Moment { call, thread, .. }: Moment,
        change: &Change,
        current: u64,
        id: impl Fn(StreamHandle) -> StreamId,
        is_done: bool,
    ) -> Option<usize> {
        if let Change::Submitted { on, .. } | Change::Copied { on, .. } = *change {
            return Some(self.submit(call, thread, on, is_done));
        }
        let order = &mut self.order;
        match *change {
            Change::StreamMade { stream, green, is_blocking } => {
                order.stream_made(stream, green.unwrap_or(current), is_blocking);
            }
            Change::StreamEnded { stream } => order.stream_ended(stream),
            Change::EventRecorded { event, behind: Scope::Stream(on), .. } => {
                let at = order.index_or_insert(id(on), current);
                order.event_recorded(event, at, call);
            }
            Change::EventRecorded { event, behind: Scope::Context(context), .. } => {
                order.event_recorded_in(event, context, call);
            }
            Change::EventAwaited { event, by: Scope::Stream(on), .. } => {
                let at = order.index_or_insert(id(on), current);
                order.event_awaited(event, at, call);
            }
            Change::EventAwaited { event, by: Scope::Context(context), .. } => {
                order.event_awaited_in(event, context, call)
            }
            Change::EventEnded { event } => order.event_ended(event),
            Change::StreamFinished { on } => order.stream_finished(id(on), call),
            Change::EventsFinished { events } => events.into_iter().for_each(|event| order.event_finished(event)),
            Change::ContextFinished { context } => {
                let all = self.contexts.waited_with(context.unwrap_or(current));
                all.into_iter().for_each(|context| order.context_finished(context, call));
            }
            _ => {}
        }
        None
    }
}
