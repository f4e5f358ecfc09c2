//! Work that was submitted and that no call in the trace shows to be complete: a hanging or dying program
//! waited for it.

use super::change::{Change, Moment, resolve};
use super::order::StreamPosition;
use super::stream::{LEGACY, PER_THREAD, StreamHandle, StreamId};
use super::streams::{Followed, Streams};
use crate::api::Function;
use crate::api::effect::{Effect, Work as Submission};
use crate::api::roles::Class;
use crate::api::types::Kind;
use crate::model::objects::Objects;
use crate::read::call::Call;
use crate::read::reader::Trace;
use foldhash::HashMap;
use std::collections::VecDeque;
use std::time::Duration;

/// One stream's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// As `dump` names it: `stream#3`, `the legacy stream of ctx#1`.
    pub stream: String,
    /// The stream's identity.
    pub queue: StreamId,
    /// Submissions in order, by their numbers.
    pub calls: Vec<u64>,
}

/// Work that was not known to be complete at some call.
pub struct Left {
    /// The work by stream.
    pub works: Vec<Work>,
    /// How long it was from the first of it until the recording told that all had, or ended.
    pub took: Duration,
}

/// The work that a successful wait or poll shows to be complete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wait {
    /// Submissions of which nothing had told before.
    pub covered: u64,
    /// The latest of them, by its number.
    pub last: Option<u64>,
}

/// Outstanding work, advanced along the calls of a trace in the order of their entry.
#[derive(Default)]
pub struct Outstanding {
    /// The driver's state at the current call.
    pub streams: Streams,
    /// By the index of the stream: its work in order, and its name.
    work: Vec<VecDeque<u64>>,
    names: Vec<String>,
    /// Calls that put a callback on a stream, and what that waited for then.
    callbacks: HashMap<u64, Callback>,
    /// What the call moved to last tells to have finished.
    done: Vec<u64>,
    finished: Vec<StreamPosition>,
    /// Submissions in `work`.
    count: usize,
    /// Whether launches of this trace wait for their end. Asked once.
    launches_wait: Option<bool>,
}

struct Callback {
    stream: usize,
    waits: Vec<StreamPosition>,
}

/// By stream; those with the earliest work first.
pub fn outstanding(trace: &Trace) -> Vec<Work> {
    left_at(trace, u64::MAX).works
}

/// What a call of this number finds.
pub fn left_at(trace: &Trace, number: u64) -> Left {
    let mut walk = Outstanding::default();
    let mut objects = Objects::default();
    let mut last = 0;
    let mut there: Option<Vec<Work>> = None;
    for call in trace.calls().filter(|call| !call.inner) {
        last = last.max(call.end.unwrap_or(call.begin));
        if call.number >= number {
            let works = there.get_or_insert_with(|| walk.left());
            if !works.iter().any(|work| work.calls.last().is_some_and(|call| walk.is_under_way(*call))) {
                last = call.begin;
                break;
            }
        }
        objects.follow(&call);
        if let Some(function) = call.function() {
            walk.advance(&call, function, &objects);
        }
    }
    trace.callers_back().iter().for_each(|call| walk.called_back(call.number, true));
    let works = there.unwrap_or_else(|| walk.left());
    let first = works.first().and_then(|work| trace.call(work.calls[0])).map_or(last, |call| call.begin);
    let took = trace.nanoseconds(last) - trace.nanoseconds(first);
    Left { works, took: Duration::from_nanos(took.max(0) as u64) }
}

impl Outstanding {
    /// Whether all that was submitted is known to have finished.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether this submission is not known to have completed.
    pub fn is_under_way(&self, call: u64) -> bool {
        self.busy().any(|(_, calls)| calls.binary_search(&call).is_ok())
    }

    /// Submissions not known to have finished.
    pub fn under_way(&self) -> impl Iterator<Item = u64> {
        self.busy().flat_map(|(_, calls)| calls.iter().copied())
    }

    fn busy(&self) -> impl Iterator<Item = (usize, &VecDeque<u64>)> {
        self.streams.order.busy().filter_map(|at| Some((at, self.work.get(at)?)))
    }

    /// By stream; those with the earliest work first.
    pub fn left(&self) -> Vec<Work> {
        let left = self.busy().filter(|(_, calls)| !calls.is_empty());
        let named = |(at, calls): (usize, &VecDeque<u64>)| Work {
            stream: self.names[at].clone(),
            queue: self.streams.order.stream(at).id,
            calls: calls.iter().copied().collect(),
        };
        let mut left: Vec<Work> = left.map(named).collect();
        left.sort_by_key(|work| work.calls[0]);
        left
    }

    /// Moves past a call that was not made inside another one. `objects` must have been moved to it. What it
    /// tells to have finished, if it is a wait or a poll that succeeded, or a copy that is done when it
    /// returns.
    pub fn advance(&mut self, call: &Call, function: &'static Function, objects: &Objects) -> Option<Wait> {
        let change = call.took_effect().then(|| resolve(call, function)).flatten();
        self.step(call, function, change, objects).0
    }

    /// The same, of a call that changed this, and what came of it.
    pub fn step(
        &mut self,
        call: &Call,
        function: &'static Function,
        change: Option<Change>,
        objects: &Objects,
    ) -> (Option<Wait>, Followed) {
        if !call.took_effect() {
            return (None, Followed::default());
        }
        self.done.clear();
        let followed = change.map(|change| self.follow(call, function, &change, objects)).unwrap_or_default();
        let told = || Wait { covered: self.done.len() as u64, last: self.done.iter().copied().max() };
        let is_wait = match function.class {
            Class::copy => followed.is_done,
            class => matches!(class, Class::synchronize | Class::poll),
        };
        (is_wait.then(told), followed)
    }

    /// Moves past a call that gave this stream work, as [`Outstanding::step`] does of any call, if nothing else
    /// comes of it: nearly every call that gives any. Which stream that is, by its index in the order.
    #[inline]
    pub fn submit(&mut self, call: &Call, function: &Function, on: StreamHandle, objects: &Objects) -> Option<usize> {
        let allocates = function.effect == Effect::Submit(Submission::Graph) && !self.streams.graphs.is_empty();
        if allocates || !self.streams.captures.are_none() || self.waits(call, function) {
            return None;
        }
        self.done.clear();
        let at = self.streams.submit(call.number, call.thread, on, false);
        self.name_new(objects);
        self.enqueue(call, function, at);
        Some(at)
    }

    /// Whether a launch has ended when it returns.
    fn waits(&mut self, call: &Call, function: &Function) -> bool {
        let launches_wait = || call.trace().preamble.launches_wait();
        function.class == Class::launch && *self.launches_wait.get_or_insert_with(launches_wait)
    }

    /// Moves past a call that changed this.
    pub fn follow(&mut self, call: &Call, function: &Function, change: &Change, objects: &Objects) -> Followed {
        let waits = self.waits(call, function);
        let followed = self.streams.follow(Moment::from_call(call), change, waits);
        self.name_new(objects);
        if let Some(at) = followed.put.filter(|_| !followed.is_done) {
            self.enqueue(call, function, at);
        }
        self.count_finished();
        followed
    }

    /// When they are met: their handles may be others' later.
    fn name_new(&mut self, objects: &Objects) {
        for at in self.work.len()..self.streams.order.met_so_far() {
            self.names.push(name_of(self.streams.order.stream(at).id, objects));
            self.work.push(VecDeque::new());
        }
    }

    fn enqueue(&mut self, call: &Call, function: &Function, at: usize) {
        if function.calls_back {
            let order = &self.streams.order;
            let mut waits = order.waits(at);
            waits.extend(order.implied(at).into_iter().map(|other| (other, call.number)));
            self.callbacks.insert(call.number, Callback { stream: at, waits });
        }
        self.work[at].push_back(call.number);
        self.count += 1;
    }

    fn count_finished(&mut self) {
        if !self.streams.order.has_finished() {
            return;
        }
        self.streams.order.take_finished(&mut self.finished);
        for (at, until) in &self.finished {
            let Some(work) = self.work.get_mut(*at) else { continue };
            while let Some(done) = work.front().copied().filter(|call| call < until) {
                work.pop_front();
                self.count -= 1;
                self.done.push(done);
            }
        }
    }

    /// The callback that this call put on a stream has begun to run, or ended: what stood before it has
    /// finished.
    pub fn called_back(&mut self, call: u64, has_ended: bool) {
        if let Some(Callback { stream, mut waits }) = self.callbacks.remove(&call) {
            waits.insert(0, (stream, call + u64::from(has_ended)));
            self.streams.order.reached(waits);
            self.count_finished();
        }
    }

    /// Work put so far, and not known to have finished, for which the callback that this call put on a stream
    /// does not wait.
    pub fn concurrent_with(&self, callback: u64) -> impl Iterator<Item = u64> {
        let of = self.callbacks.get(&callback);
        let until = move |stream: usize| {
            let Callback { stream: own, waits } = of?;
            let waited = || waits.iter().filter(|(at, _)| *at == stream).map(|(_, until)| *until).max();
            if stream == *own { Some(callback + 1) } else { waited() }
        };
        let all = self.busy().filter(move |_| of.is_some());
        all.flat_map(move |(at, calls)| calls.iter().copied().skip_while(move |call| Some(*call) < until(at)))
    }

    /// The last work not known to have finished that `is_meant`, and behind which a call that submits or
    /// copies is not put: neither its stream nor an event orders the two. To be asked before the walk sees
    /// the call. With the name of the work's stream.
    pub fn unordered(
        &mut self,
        call: &Call,
        function: &'static Function,
        is_meant: impl Fn(u64) -> bool,
    ) -> Option<(u64, &str)> {
        let (stream, current) =
            (self.streams.target(call, function).stream, self.streams.contexts.current(call.thread));
        let at = self.streams.order.index_or_insert(stream, current.unwrap_or(0));
        let ordered = self.ordered_before(at, call.number);
        let last = |(at, calls): (usize, &VecDeque<u64>)| {
            // Numbers ascend on a stream: what is ordered before the call is not gone through.
            let after = ordered.get(&at).copied().unwrap_or(0);
            let call = calls.iter().rev().copied().take_while(|call| *call >= after).find(|call| is_meant(*call))?;
            Some((call, self.names.get(at).map_or("", String::as_str)))
        };
        self.busy().filter_map(last).max()
    }

    /// Up to which call of which stream all is done before what is put here by a call of this number.
    fn ordered_before(&self, stream: usize, number: u64) -> HashMap<usize, u64> {
        let order = &self.streams.order;
        let mut ordered = HashMap::from_iter([(stream, number)]);
        // Each with the call, at the latest, that waits for what stands there.
        let mut open = vec![(stream, number)];
        while let Some((at, waiting)) = open.pop() {
            let implied = order.implied(at).into_iter().map(|other| (other, waiting));
            for (other, until) in order.waits_of(at, waiting).into_iter().chain(implied) {
                let known = ordered.entry(other).or_insert(0);
                if until > *known {
                    *known = until;
                    let work = self.work.get(other).into_iter().flatten();
                    open.extend(work.rev().find(|call| **call < until).map(|last| (other, *last)));
                }
            }
        }
        ordered
    }

    /// The stream that a call puts work on, as it is named. `objects` must have been moved to the call.
    pub fn stream_name(&self, call: &Call, function: &'static Function, objects: &Objects) -> String {
        name_of(self.streams.target(call, function).stream, objects)
    }

    /// The submissions that were told to have finished since the last call that succeeded, by their numbers.
    /// Once.
    pub fn take_done(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.done)
    }
}

fn name_of(StreamId { context, stream, thread }: StreamId, objects: &Objects) -> String {
    let number = |kind: Kind, value| match objects.object(kind, value) {
        Some((number, _)) => format!("{}#{number}", kind.label()),
        None => format!("{}@{value:#x}", kind.label()),
    };
    match (stream, thread) {
        (LEGACY, _) => format!("the legacy stream of {}", number(Kind::Context, context)),
        (PER_THREAD, Some(thread)) => {
            format!("the per-thread stream of t{thread} in {}", number(Kind::Context, context))
        }
        _ => number(Kind::Stream, stream),
    }
}
