//! What depends on the order of calls: streams, memory, and the sums of launches, copies and loads.

use super::event::{Category, Flags};
use super::lane::{Lane, Source};
use super::memory::Usage;
use super::ops::{Op, Plan, What};
use super::streams::{Streams, Work};
use super::tables::{Collected, Load};
use super::threads::push;
use std::collections::HashMap;
use trace::Trace;

/// Module loads that the table lists.
const LOADS: usize = 10_000;

pub struct Walk<'t> {
    trace: &'t Trace,
    /// Kernel ids to names.
    kernels: HashMap<u32, u32>,
    pub streams: Streams,
    pub memory: Usage,
    /// By name.
    pub launches: Vec<Collected>,
    /// By function.
    pub moves: Vec<Collected>,
    pub loads: Vec<Load>,
}

impl<'t> Walk<'t> {
    /// `names`: how many there are; functions come first.
    pub fn new(trace: &'t Trace, kernels: HashMap<u32, u32>, names: usize) -> Walk<'t> {
        Walk {
            trace,
            kernels,
            streams: Streams::default(),
            memory: Usage::default(),
            launches: vec![Collected::default(); names],
            moves: vec![Collected::default(); trace.preamble.functions.len()],
            loads: Vec::new(),
        }
    }

    /// Goes on over what a block holds.
    pub fn take(&mut self, ops: &[Op], plans: &[Plan]) {
        for op in ops {
            let category = plans.get(usize::from(op.function)).map_or(Category::Other, |plan| plan.category);
            self.follow(op, category);
        }
    }

    fn follow(&mut self, op: &Op, category: Category) {
        let took = op.end - op.begin;
        let streams = &mut self.streams;
        match op.what {
            What::Work { on, kernel, bytes } => {
                let known = self.kernels.get(&kernel).copied();
                let name = known.unwrap_or(op.function.into());
                // A graph is not a kernel.
                let is_kernel = || known.is_some() || !self.trace.function_name(op.function).starts_with("cuGraph");
                match category {
                    Category::Launch if is_kernel() => self.launches[name as usize].add(op.call, took, false, 0),
                    Category::Copy => self.moves[usize::from(op.function)].add(op.call, took, false, bytes),
                    _ => {}
                }
                if !streams.is_captured(on.handle) {
                    streams.submit(op, on, name, Flags::new(category, false, false).0);
                }
            }
            What::Copied { on, bytes } => {
                self.moves[usize::from(op.function)].add(op.call, took, false, bytes);
                streams.submit(op, on, op.function.into(), Flags::new(category, false, false).0);
                // It covers itself.
                streams.stream_done(&Op { call: op.call + 1, ..*op }, on);
            }
            What::StreamDone { on } => streams.stream_done(op, on),
            What::EventDone { event } => streams.event_done(op, event),
            What::ContextDone { context } => streams.context_done(op, context),
            What::EventRecorded { event, on } => streams.event_recorded(op, event, on),
            What::EventAwaited { event, on } => streams.event_awaited(op, event, on),
            What::StreamMade { stream, blocking } => streams.stream_made(op, stream, blocking),
            What::StreamGone { stream } => streams.stream_gone(stream),
            What::CaptureBegun { stream } => streams.capture_begun(stream),
            What::CaptureEnded { stream } => streams.capture_ended(stream),
            What::ContextOf { context, device, pushed } => streams.context_of(op.thread, context, device, pushed),
            What::ContextPushed { context } => streams.context_pushed(op.thread, context),
            What::ContextPopped => streams.context_popped(op.thread),
            What::ContextSet { context } => streams.context_set(op.thread, context),
            What::ContextGone { context } => {
                streams.context_gone(op, context);
                self.memory.end(op.end, |of, _| of == context);
            }
            What::DeviceReset { device } => self.memory.end(op.end, |_, of| of == device),
            What::Allocated { address, bytes, origin } => {
                let of = (streams.device(op.thread), streams.context(op.thread));
                self.memory.add(op.end, (address, bytes), origin, of, op.call);
            }
            What::Freed { address } => self.memory.remove(op.begin, address),
            What::Loaded { image, bytes } => {
                if self.loads.len() < LOADS {
                    self.loads.push(Load { call: op.call, name: op.function.into(), bytes, image, took });
                }
            }
        }
    }
}

/// Work lasts until the next of its stream, or until it is known to be done. A stream does one work after the other, so where
/// nothing tells of an end the first is the one that may be under way: it lasts until `end`, of the trace, and what was submitted
/// behind it stands there, as work that has not begun.
pub fn stream_lane(work: Work, end: u64) -> Lane {
    let Work { queue, begin, name, flags, call, done, .. } = work;
    let mut lane = Lane::empty(Source::Stream(queue));
    let unfinished = done.iter().position(|done| *done == u64::MAX).unwrap_or(done.len());
    for index in 0..begin.len() {
        let (from, until) = match index {
            _ if index > unfinished => (end, end),
            _ if index == unfinished => (begin[index], end),
            _ => (begin[index], done[index].min(begin.get(index + 1).copied().unwrap_or(u64::MAX)).min(end)),
        };
        let open = if index >= unfinished { Flags::OPEN } else { 0 };
        let from = from.max(begin[index]);
        push(&mut lane, from, until.max(from), name[index], flags[index] | open, call[index]);
    }
    lane.done = done.into();
    lane
}
