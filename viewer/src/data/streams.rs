//! Streams as the host knows them: when work was submitted, and which wait says that it is done.
//!
//! A wait that succeeded covers what stood before it in its stream, and what the stream waits for by events. The legacy
//! stream's covers the blocking streams of its context. Work under capture is not on the device yet.

use super::findings::Gap;
use super::lane::Queue;
use super::ops::Op;
use rustc_hash::FxHashMap as HashMap;
use std::collections::BTreeSet;
use trace::model::stream::{StreamHandle, StreamId};

/// The work of one stream so far.
pub struct Work {
    pub queue: Queue,
    pub begin: Vec<u64>,
    pub name: Vec<u32>,
    pub flags: Vec<u8>,
    pub call: Vec<u32>,
    /// When it is known to be done, ns; u64::MAX if nothing tells.
    pub done: Vec<u64>,
    /// The first that is not known to be done.
    pending: usize,
}

impl Work {
    /// Keeps the work of these calls.
    pub fn retain(&mut self, keeps: impl Fn(u32) -> bool) {
        let kept: Vec<usize> = (0..self.call.len()).filter(|at| keeps(self.call[*at])).collect();
        self.begin = kept.iter().map(|at| self.begin[*at]).collect();
        self.name = kept.iter().map(|at| self.name[*at]).collect();
        self.flags = kept.iter().map(|at| self.flags[*at]).collect();
        self.done = kept.iter().map(|at| self.done[*at]).collect();
        self.call = kept.into_iter().map(|at| self.call[at]).collect();
    }
}

/// Up to which call of which stream something reaches.
type Reach = HashMap<usize, u32>;

#[derive(Default)]
pub struct Streams {
    pub work: Vec<Work>,
    by_id: HashMap<StreamId, usize>,
    stacks: HashMap<u32, Vec<u64>>,
    device_of: HashMap<u64, i32>,
    /// Of streams: whether the legacy stream waits for them, their context, and the call that made them.
    made: HashMap<u64, (bool, u64, u32)>,
    events: HashMap<u64, Reach>,
    waits: HashMap<usize, Reach>,
    captures: HashMap<u64, u64>,
    captured_events: HashMap<u64, u64>,
    /// Streams with work that is not known to be done: there may be many that have none.
    busy: BTreeSet<usize>,
    /// By device: since when nothing is outstanding, and the call that said so.
    idle: HashMap<i32, (u64, u32)>,
    pub gaps: Vec<Gap>,
}

impl Streams {
    pub fn context(&self, thread: u32) -> u64 {
        self.stacks.get(&thread).and_then(|stack| stack.last()).copied().unwrap_or(0)
    }

    pub fn device(&self, thread: u32) -> i32 {
        self.device_of_context(self.context(thread))
    }

    pub fn device_of_context(&self, context: u64) -> i32 {
        self.device_of.get(&context).copied().unwrap_or(0)
    }

    fn id(&self, thread: u32, on: StreamHandle) -> StreamId {
        on.of(self.context(thread), thread)
    }

    fn queue(&mut self, op: &Op, on: StreamHandle) -> usize {
        let id = self.id(op.thread, on);
        if let Some(known) = self.by_id.get(&id) {
            return *known;
        }
        let StreamId { stream, thread, .. } = id;
        let made = self.made.get(&stream).filter(|_| thread.is_none()).copied();
        let (_, context, call) = made.unwrap_or((false, self.context(op.thread), op.call));
        let queue = Queue { device: self.device_of_context(context), context, stream, thread, call };
        let work = Work { queue, begin: vec![], name: vec![], flags: vec![], call: vec![], done: vec![], pending: 0 };
        self.work.push(work);
        self.by_id.insert(id, self.work.len() - 1);
        self.work.len() - 1
    }

    pub fn is_captured(&self, stream: u64) -> bool {
        self.captures.contains_key(&stream)
    }

    /// Work put on a stream.
    pub fn submit(&mut self, op: &Op, on: StreamHandle, name: u32, flags: u8) {
        let at = self.queue(op, on);
        let device = self.work[at].queue.device;
        if let Some((since, by)) = self.idle.remove(&device)
            && op.begin > since
        {
            self.gaps.push(Gap { device, begin: since, end: op.begin, after: by, before: op.call, causes: None });
        }
        let work = &mut self.work[at];
        // Threads may submit to one stream in overlapping calls; the order of their entries is assumed.
        work.begin.push(op.begin.max(work.begin.last().copied().unwrap_or(0)));
        work.name.push(name);
        work.flags.push(flags);
        work.call.push(op.call);
        if work.pending == work.done.len() {
            self.busy.insert(at);
        }
        work.done.push(u64::MAX);
    }

    /// A wait for this stream succeeded.
    pub fn stream_done(&mut self, op: &Op, on: StreamHandle) {
        let id = self.id(op.thread, on);
        if let Some(at) = self.by_id.get(&id).copied() {
            let reach: Vec<(usize, u32)> = self.waits.get(&at).into_iter().flatten().map(|(q, c)| (*q, *c)).collect();
            self.finish(at, op.call, op);
            reach.into_iter().for_each(|(other, until)| self.finish(other, until, op));
        }
        if id.is_legacy() {
            let blocking = |work: &Work| match work.queue.thread {
                Some(_) => work.queue.context == id.context,
                None => self.made.get(&work.queue.stream).is_some_and(|made| (made.0, made.1) == (true, id.context)),
            };
            let others: Vec<usize> = self.busy.iter().copied().filter(|at| blocking(&self.work[*at])).collect();
            others.into_iter().for_each(|at| self.finish(at, op.call, op));
        }
    }

    pub fn event_done(&mut self, op: &Op, event: u64) {
        let reach: Vec<(usize, u32)> = self.events.get(&event).into_iter().flatten().map(|(q, c)| (*q, *c)).collect();
        reach.into_iter().for_each(|(at, until)| self.finish(at, until, op));
    }

    pub fn context_done(&mut self, op: &Op, context: u64) {
        let context = if context == 0 { self.context(op.thread) } else { context };
        let own: Vec<usize> = self.busy.iter().copied().filter(|at| self.work[*at].queue.context == context).collect();
        own.into_iter().for_each(|at| self.finish(at, op.call, op));
    }

    fn finish(&mut self, at: usize, until: u32, op: &Op) {
        let work = &mut self.work[at];
        let before = work.pending;
        while work.call.get(work.pending).is_some_and(|call| *call < until) {
            work.done[work.pending] = op.end;
            work.pending += 1;
        }
        let done = work.pending - before;
        let device = work.queue.device;
        if work.pending == work.call.len() {
            self.busy.remove(&at);
        }
        if done > 0 && !self.busy.iter().any(|at| self.work[*at].queue.device == device) {
            self.idle.insert(device, (op.end, op.call));
        }
    }

    pub fn event_recorded(&mut self, op: &Op, event: u64, on: StreamHandle) {
        if let Some(origin) = self.captures.get(&on.handle) {
            self.captured_events.insert(event, *origin);
            return;
        }
        self.captured_events.remove(&event);
        let at = self.queue(op, on);
        let mut reach = self.waits.get(&at).cloned().unwrap_or_default();
        reach.insert(at, op.call);
        self.events.insert(event, reach);
    }

    pub fn event_awaited(&mut self, op: &Op, event: u64, on: StreamHandle) {
        // A stream that waits for a capture joins it.
        if let Some(origin) = self.captured_events.get(&event) {
            self.captures.insert(on.handle, *origin);
            return;
        }
        let Some(reach) = self.events.get(&event).cloned() else { return };
        let at = self.queue(op, on);
        let waits = self.waits.entry(at).or_default();
        for (other, until) in reach {
            let known = waits.entry(other).or_insert(0);
            *known = until.max(*known);
        }
    }

    pub fn stream_made(&mut self, op: &Op, stream: u64, blocking: bool) {
        let context = self.context(op.thread);
        self.made.insert(stream, (blocking, context, op.call));
    }

    pub fn stream_gone(&mut self, stream: u64) {
        if let Some(at) = self.by_id.remove(&StreamId { context: 0, stream, thread: None }) {
            self.waits.remove(&at);
        }
    }

    pub fn capture_begun(&mut self, stream: u64) {
        self.captures.insert(stream, stream);
    }

    pub fn capture_ended(&mut self, stream: u64) {
        self.captures.retain(|_, origin| *origin != stream);
        self.captured_events.retain(|_, origin| *origin != stream);
    }

    pub fn context_of(&mut self, thread: u32, context: u64, device: i32, pushed: bool) {
        self.device_of.insert(context, device);
        if pushed {
            self.stacks.entry(thread).or_default().push(context);
        }
    }

    pub fn context_pushed(&mut self, thread: u32, context: u64) {
        self.stacks.entry(thread).or_default().push(context);
    }

    pub fn context_popped(&mut self, thread: u32) {
        self.stacks.entry(thread).or_default().pop();
    }

    pub fn context_set(&mut self, thread: u32, context: u64) {
        let stack = self.stacks.entry(thread).or_default();
        stack.pop();
        stack.extend((context != 0).then_some(context));
    }

    pub fn context_gone(&mut self, op: &Op, context: u64) {
        self.context_done(op, context);
        let stack = self.stacks.entry(op.thread).or_default();
        if stack.last() == Some(&context) {
            stack.pop();
        }
    }
}
