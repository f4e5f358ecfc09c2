//! Work that was submitted and that nothing in the trace tells to have finished: what a hanging or dying program waited for.
//!
//! A wait that succeeded covers what stood before it in its stream, and what the stream waits for by events. The legacy stream's
//! covers the blocking streams of its context.

use crate::addresses::PAGE;
use crate::ranges::widen;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::time::Duration;
use trace::api::roles::{Class, Role};
use trace::api::table::Awaited;
use trace::api::types::Kind;
use trace::call::Content;
use trace::model::contexts::Contexts;
use trace::model::stream::{LEGACY, PER_THREAD, StreamHandle, StreamId};
use trace::objects::Objects;
use trace::{Call, Function, Trace, decode};

/// One stream's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// As `dump` names it: `stream#3`, `the legacy stream of ctx#1`.
    pub stream: String,
    pub(crate) queue: StreamId,
    /// Submissions in order, by their numbers.
    pub calls: Vec<u64>,
}

/// What was not known to have finished at some call.
pub struct Left {
    pub works: Vec<Work>,
    /// How long it was from the first of it until the recording told that all had, or ended.
    pub took: Duration,
}

/// What a successful wait, or a poll that said yes, tells to have finished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wait {
    /// Submissions of which nothing had told before.
    pub covered: u64,
    /// The latest of them, by its number.
    pub last: Option<u64>,
}

type Reach = HashMap<StreamId, u64>;

/// What is outstanding, moved along the calls of a trace in the order of their entry.
#[derive(Default)]
pub struct Outstanding {
    contexts: Contexts,
    /// By stream, in order.
    work: HashMap<StreamId, VecDeque<u64>>,
    names: HashMap<StreamId, String>,
    /// Streams that the legacy stream does not wait for, and the contexts of all.
    free_running: HashMap<u64, bool>,
    made_in: HashMap<u64, u64>,
    /// What an event covered when it was recorded, and what streams wait for: up to which call of which queue.
    events: HashMap<u64, Reach>,
    waits: HashMap<StreamId, Reach>,
    captures: crate::plan::captures::Captures,
    /// Pinned and managed memory, start to end, and which of it each launch was given that is not known to have finished.
    pinned: BTreeMap<u64, u64>,
    managed: BTreeMap<u64, u64>,
    given: HashMap<u64, Vec<u64>>,
    /// Calls that put a callback on a stream, and what that waited for then.
    callbacks: HashMap<u64, (StreamId, Reach)>,
    /// What the call moved to last tells to have finished.
    done: Vec<u64>,
    /// Submissions in `work`.
    count: usize,
}

/// What the driver moves between the CPU and a device at once, at most: a block of managed memory.
const MOVED: u64 = 2 << 20;

/// Where a call in a context puts work for a stream.
fn queue_of(context: u64, call: &Call, function: &Function, stream: u64) -> StreamId {
    StreamHandle::new(function, stream).of(context, call.thread)
}

fn around(memory: &BTreeMap<u64, u64>, address: u64) -> Option<u64> {
    let (start, end) = memory.range(..=address).next_back()?;
    (address < *end).then_some(*start)
}

/// Words of a launch's arguments.
pub fn arguments(call: &Call) -> impl Iterator<Item = u64> {
    let packed = call.images().find_map(|image| match image.content {
        Content::Arguments { packed, .. } => Some(packed),
        _ => None,
    });
    packed.unwrap_or(&[]).chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("8 bytes")))
}

/// By stream; those with the earliest work first.
pub fn outstanding(trace: &Trace) -> Vec<Work> {
    left_at(trace, u64::MAX).works
}

/// What a call of this number finds.
pub(crate) fn left_at(trace: &Trace, number: u64) -> Left {
    let mut walk = Outstanding::default();
    let mut objects = Objects::default();
    let mut last = 0;
    let mut there: Option<Vec<Work>> = None;
    for call in trace.calls().filter(|call| !call.inner) {
        last = last.max(call.last_end().unwrap_or(call.begin));
        if call.number >= number {
            let works = there.get_or_insert_with(|| walk.left());
            if !works.iter().any(|work| work.calls.last().is_some_and(|call| walk.is_under_way(*call))) {
                last = call.begin;
                break;
            }
        }
        match objects.concerned(&call).then(|| decode::decode(&call)).flatten() {
            Some(decoded) => objects.advance(&call, &decoded),
            None => objects.until(&call),
        }
        if let Some(function) = call.function() {
            walk.see(&call, function, &objects);
        }
    }
    trace.callers_back().iter().for_each(|call| walk.called_back(call.number, true));
    let works = there.unwrap_or_else(|| walk.left());
    let first = works.first().and_then(|work| trace.call(work.calls[0])).map_or(last, |call| call.begin);
    let took = trace.nanoseconds(last) - trace.nanoseconds(first);
    Left { works, took: Duration::from_nanos(took.max(0) as u64) }
}

impl Outstanding {
    /// Launches not known to have finished which were given the pinned memory that holds this address.
    pub fn given_to(&self, address: u64) -> Vec<u64> {
        let Some(start) = around(&self.pinned, address) else { return Vec::new() };
        let is_given = |call: &u64| self.given.get(call).is_some_and(|given| given.contains(&start));
        self.under_way().filter(is_given).collect()
    }

    /// Launches not known to have finished which were given managed memory that the driver may move together with this.
    pub fn given_beside(&self, memory: &Range<u64>) -> Vec<u64> {
        let blocks = widen(memory.clone(), MOVED);
        let beside = self.managed.range(..blocks.end).filter(|(_, end)| **end > blocks.start);
        let beside: Vec<u64> = beside.map(|(start, _)| *start).collect();
        let is_given =
            |call: &u64| self.given.get(call).is_some_and(|given| given.iter().any(|at| beside.contains(at)));
        self.under_way().filter(is_given).collect()
    }

    /// Whether all that was submitted is known to have finished.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn is_under_way(&self, call: u64) -> bool {
        self.work.values().any(|calls| calls.binary_search(&call).is_ok())
    }

    /// Submissions not known to have finished.
    pub fn under_way(&self) -> impl Iterator<Item = u64> {
        self.work.values().flatten().copied()
    }

    fn follow_memory(&mut self, call: &Call) {
        let argument = |name| call.argument(name).unwrap_or(0);
        match call.name() {
            "cuMemAllocHost_v2" | "cuMemAllocHost" | "cuMemHostAlloc" => {
                let range = call.output("pp").map(|start| (start, start.saturating_add(argument("bytesize"))));
                self.pinned.extend(range);
            }
            "cuMemHostRegister" | "cuMemHostRegister_v2" => {
                self.pinned.insert(argument("p"), argument("p").saturating_add(argument("bytesize")));
            }
            "cuMemFreeHost" | "cuMemHostUnregister" => _ = self.pinned.remove(&argument("p")),
            "cuMemAllocManaged" => {
                let range = call.output("dptr").map(|start| (start, start.saturating_add(argument("bytesize"))));
                self.managed.extend(range);
            }
            "cuMemFree" | "cuMemFree_v2" => _ = self.managed.remove(&argument("dptr")),
            _ => {}
        }
    }

    pub fn has_pinned(&self) -> bool {
        !self.pinned.is_empty()
    }

    /// The pinned memory that holds this address.
    pub fn pinned_around(&self, address: u64) -> Option<Range<u64>> {
        let start = around(&self.pinned, address)?;
        Some(start..self.pinned[&start])
    }

    /// Whether other pinned memory than the piece lies on the pages of this part of it.
    pub fn has_neighbours(&self, piece: &Range<u64>, part: &Range<u64>) -> bool {
        let pages = widen(part.clone(), PAGE);
        let met = self.pinned.range(..pages.end).rev().take_while(|(_, end)| **end > pages.start);
        let mut starts = met.map(|(start, _)| *start);
        starts.any(|start| start != piece.start)
    }

    /// Pinned memory that a launch is given as a whole, by its start.
    pub fn given_whole(&self, call: &Call) -> Vec<Range<u64>> {
        arguments(call).filter_map(|word| Some(word..*self.pinned.get(&word)?)).collect()
    }

    fn given(&self, call: &Call, function: &Function) -> Vec<u64> {
        if function.common_name() == "cuGraphLaunch" {
            // Its nodes may have been given any.
            return self.managed.keys().copied().collect();
        }
        arguments(call).filter_map(|word| around(&self.pinned, word).or_else(|| around(&self.managed, word))).collect()
    }

    /// By stream; those with the earliest work first.
    pub fn left(&self) -> Vec<Work> {
        let left = self.work.iter().filter(|(_, calls)| !calls.is_empty());
        let named = |(queue, calls): (&StreamId, &VecDeque<u64>)| {
            let stream = self.names.get(queue).cloned().unwrap_or_default();
            Work { stream, queue: *queue, calls: calls.iter().copied().collect() }
        };
        let mut left: Vec<Work> = left.map(named).collect();
        left.sort_by_key(|work| work.calls[0]);
        left
    }

    /// Moves past a call that was not made inside another one. `objects` must have been moved to it. What it tells to
    /// have finished, if it is a wait or a poll that succeeded, or a copy that is done when it returns.
    pub fn see(&mut self, call: &Call, function: &'static Function, objects: &Objects) -> Option<Wait> {
        if function.class == Class::query {
            return None;
        }
        self.contexts.see(call);
        if !call.took_effect() {
            return None;
        }
        self.done.clear();
        self.follow_memory(call);
        let context = self.contexts.current(call.thread).unwrap_or(0);
        let queue = |stream| queue_of(context, call, function, stream);
        let stream = call.stream();
        let captured = stream.is_some_and(|stream| self.captures.origin(stream).is_some());
        self.captures.see(call, function, &crate::ranges::Ranges::default());
        let argument = |name| call.argument(name).unwrap_or(0);
        match function.awaited() {
            Some(Awaited::Stream(at)) => self.finished(queue(call.word(at)), call.number),
            Some(Awaited::Events(events)) => {
                let reach = events.map(|at| self.events.get(&call.word(at)).cloned());
                let all = reach.into_iter().flatten().flatten();
                all.for_each(|(queue, until)| self.drop_until(queue, until));
            }
            Some(Awaited::Context(at)) => self.ended(Awaited::context(at, |at| call.word(at)).unwrap_or(context)),
            None => {}
        }
        match function.common_name() {
            "cuStreamCreate" | "cuStreamCreateWithPriority" => {
                let flags = call.argument("Flags").or(call.argument("flags")).unwrap_or(0);
                if let Some(stream) = call.output("phStream") {
                    self.free_running.insert(stream, flags & 1 != 0);
                    self.made_in.insert(stream, context);
                }
            }
            "cuGreenCtxStreamCreate" => {
                if let Some(stream) = call.output("phStream") {
                    self.free_running.insert(stream, argument("flags") & 1 != 0);
                    self.made_in.insert(stream, argument("greenCtx"));
                }
            }
            "cuCtxDestroy" | "cuCtxDestroy_v2" => self.ended(argument("ctx")),
            "cuEventRecord" | "cuEventRecordWithFlags" if !captured => {
                let queue = queue(argument("hStream"));
                let mut reach = self.waits.get(&queue).cloned().unwrap_or_default();
                reach.insert(queue, call.number);
                self.events.insert(argument("hEvent"), reach);
            }
            "cuCtxRecordEvent" | "cuGreenCtxRecordEvent" => {
                let context = argument("hCtx");
                let all = self.work.keys().filter(|queue| context_of(&self.made_in, queue) == Some(context));
                let reach = all.map(|queue| (*queue, call.number)).collect();
                self.events.insert(argument("hEvent"), reach);
            }
            "cuCtxWaitEvent" | "cuGreenCtxWaitEvent" => {}
            "cuStreamWaitEvent" if !captured => {
                let reach = self.events.get(&argument("hEvent")).cloned().unwrap_or_default();
                let waits = self.waits.entry(queue(argument("hStream"))).or_default();
                for (other, until) in reach {
                    let known = waits.entry(other).or_insert(0);
                    *known = until.max(*known);
                }
            }
            "cuStreamDestroy" | "cuStreamDestroy_v2" => {
                self.waits.remove(&queue(argument("hStream")));
            }
            _ => match function.class {
                Class::launch if !captured && call.trace().preamble.launches_wait() => {
                    self.finished(queue(stream.unwrap_or(0)), call.number);
                }
                Class::submit | Class::launch if !captured => {
                    let queue = queue(stream.unwrap_or(0));
                    let has_any = !self.pinned.is_empty() || !self.managed.is_empty();
                    if has_any && function.class == Class::launch {
                        let given = self.given(call, function);
                        self.given.extend((!given.is_empty()).then_some((call.number, given)));
                    }
                    if function.params.iter().any(|param| matches!(param.role, Role::Callback)) {
                        let mut waits = self.waits.get(&queue).cloned().unwrap_or_default();
                        waits.extend(self.implied(queue).into_iter().map(|other| (other, call.number)));
                        self.callbacks.insert(call.number, (queue, waits));
                    }
                    let work = self.work.entry(queue).or_default();
                    work.push_back(call.number);
                    self.count += 1;
                    // A handle may be another stream's by now, but not while work is outstanding on it.
                    if work.len() == 1 {
                        self.name(queue, objects);
                    }
                }
                Class::copy => self.finished(queue(0), call.number),
                _ => {}
            },
        }
        let told = || Wait { covered: self.done.len() as u64, last: self.done.iter().copied().max() };
        matches!(function.class, Class::synchronize | Class::poll | Class::copy).then(told)
    }

    /// The callback that this call put on a stream has begun to run, or ended: what stood before it has finished.
    pub fn called_back(&mut self, call: u64, has_ended: bool) {
        if let Some((queue, waits)) = self.callbacks.remove(&call) {
            self.drop_until(queue, call + u64::from(has_ended));
            waits.into_iter().for_each(|(other, until)| self.drop_until(other, until));
        }
    }

    /// Work put so far, and not known to have finished, for which the callback that this call put on a stream does not wait.
    pub fn beside(&self, callback: u64) -> impl Iterator<Item = u64> {
        let of = self.callbacks.get(&callback);
        let until = move |queue: &StreamId| {
            of.and_then(|(own, waits)| if queue == own { Some(callback + 1) } else { waits.get(queue).copied() })
        };
        let all = self.work.iter().filter(move |_| of.is_some());
        all.flat_map(move |(queue, calls)| calls.iter().copied().skip_while(move |call| Some(*call) < until(queue)))
    }

    /// The last work not known to have finished that `is_meant`, and behind which a call that submits or copies is not put: neither
    /// its stream nor an event orders the two. To be asked before the walk sees the call. With the name of the work's stream.
    pub fn unordered(
        &self,
        call: &Call,
        function: &'static Function,
        is_meant: impl Fn(u64) -> bool,
    ) -> Option<(u64, &str)> {
        let context = self.contexts.current(call.thread).unwrap_or(0);
        let own = queue_of(context, call, function, call.stream().unwrap_or(0));
        let ordered = self.ordered_before(own, call.number);
        let last = |(queue, calls): (&StreamId, &VecDeque<u64>)| {
            // Numbers ascend in a queue: what is ordered before the call is not gone through.
            let after = ordered.get(queue).copied().unwrap_or(0);
            let call = calls.iter().rev().copied().take_while(|call| *call >= after).find(|call| is_meant(*call))?;
            Some((call, self.names.get(queue).map_or("", String::as_str)))
        };
        self.work.iter().filter_map(last).max()
    }

    /// Up to which call of which queue all is done before what is put here by a call of this number.
    fn ordered_before(&self, queue: StreamId, number: u64) -> Reach {
        let mut ordered = Reach::from([(queue, number)]);
        // Each with the call, at the latest, that waits for what stands there.
        let mut open = vec![(queue, number)];
        while let Some((queue, waiting)) = open.pop() {
            let told = self.waits.get(&queue).into_iter().flatten().map(|(other, until)| (*other, *until));
            let implied = self.implied(queue).into_iter().map(|other| (other, waiting));
            for (other, until) in told.chain(implied) {
                let known = ordered.entry(other).or_insert(0);
                if until > *known {
                    *known = until;
                    let work = self.work.get(&other).into_iter().flatten();
                    open.extend(work.rev().find(|call| **call < until).map(|last| (other, *last)));
                }
            }
        }
        ordered
    }

    /// The stream that a call puts work on, as it is named. `objects` must have been moved to the call.
    pub fn stream_name(&self, call: &Call, function: &'static Function, objects: &Objects) -> String {
        let context = self.contexts.current(call.thread).unwrap_or(0);
        name_of(queue_of(context, call, function, call.stream().unwrap_or(0)), objects)
    }

    /// The submissions that were told to have finished since the last call that succeeded, by their numbers. Once.
    pub fn take_done(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.done)
    }

    fn name(&mut self, queue: StreamId, objects: &Objects) {
        self.names.insert(queue, name_of(queue, objects));
    }

    /// A wait for this queue has succeeded, made by a call of this number.
    fn finished(&mut self, queue: StreamId, until: u64) {
        self.drop_until(queue, until);
        let waits = self.waits.get(&queue).cloned().unwrap_or_default();
        waits.into_iter().for_each(|(other, until)| self.drop_until(other, until));
        if queue.is_legacy() {
            self.implied(queue).into_iter().for_each(|other| self.drop_until(other, until));
        }
    }

    /// What work put here waits for without being told to: the legacy stream for the blocking ones of its context, those for it.
    fn implied(&self, queue: StreamId) -> Vec<StreamId> {
        let legacy_of = |other: &StreamId| match other.thread {
            Some(_) => Some(other.context),
            None if self.free_running.get(&other.stream) == Some(&false) => self.made_in.get(&other.stream).copied(),
            None => None,
        };
        match queue.stream {
            LEGACY => self.work.keys().filter(|other| legacy_of(other) == Some(queue.context)).copied().collect(),
            _ => legacy_of(&queue).map(StreamId::legacy).into_iter().collect(),
        }
    }

    fn drop_until(&mut self, queue: StreamId, until: u64) {
        let Some(work) = self.work.get_mut(&queue) else { return };
        while let Some(done) = work.front().copied().filter(|call| *call < until) {
            work.pop_front();
            self.count -= 1;
            self.given.remove(&done);
            self.done.push(done);
        }
    }

    /// All work of a context is done, or gone with it.
    fn ended(&mut self, context: u64) {
        let Outstanding { work, made_in, given, done, count, .. } = self;
        work.retain(|queue, calls| {
            let stays = context_of(made_in, queue) != Some(context);
            if !stays {
                calls.iter().for_each(|call| _ = given.remove(call));
                done.extend(calls.iter());
                *count -= calls.len();
            }
            stays
        });
    }
}

fn name_of(StreamId { context, stream, thread }: StreamId, objects: &Objects) -> String {
    let number = |kind: Kind, value| match objects.object(kind, value) {
        Some((number, _)) => format!("{}#{number}", kind.label()),
        None => format!("{}@{value:#x}", kind.label()),
    };
    match (stream, thread) {
        (LEGACY, _) => format!("the legacy stream of {}", number(Kind::Context, context)),
        (PER_THREAD, Some(thread)) => format!("thread t{thread}'s own stream of {}", number(Kind::Context, context)),
        _ => number(Kind::Stream, stream),
    }
}

fn context_of(made_in: &HashMap<u64, u64>, queue: &StreamId) -> Option<u64> {
    match queue.context {
        0 => made_in.get(&queue.stream).copied(),
        known => Some(known),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    fn streams(sample: &mut Sample) {
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample.call(0, "cuCtxSetCurrent", 2..3, &[0xc0], &[]);
        for (at, stream, flags) in [(4, 0x50u64, 1), (6, 0x60, 0)] {
            sample.call(0, "cuStreamCreate", at..at + 1, &[0x100, flags], &[(0x100, &stream.to_le_bytes())]);
        }
    }

    fn fill(sample: &mut Sample, at: u64, stream: u64) {
        sample.call(0, "cuMemsetD8Async", at..at + 1, &[0x7000, 0, 1, stream], &[]);
    }

    fn left(sample: &Sample) -> Vec<(String, usize)> {
        outstanding(&sample.trace()).into_iter().map(|work| (work.stream, work.calls.len())).collect()
    }

    #[test]
    fn a_wait_covers_its_stream_and_what_that_waits_for() {
        let mut sample = Sample::new();
        streams(&mut sample);
        fill(&mut sample, 10, 0x50);
        sample.call(0, "cuEventRecord", 12..13, &[0xe0, 0x50], &[]);
        fill(&mut sample, 14, 0x50);
        sample.call(0, "cuStreamWaitEvent", 16..17, &[0x60, 0xe0, 0], &[]);
        fill(&mut sample, 18, 0x60);
        assert_eq!(left(&sample), [("stream#1".to_owned(), 2), ("stream#2".to_owned(), 1)]);
        sample.call(0, "cuStreamSynchronize", 20..21, &[0x60], &[]);
        assert_eq!(left(&sample), [("stream#1".to_owned(), 1)]);
    }

    #[test]
    fn what_neither_a_stream_nor_an_event_orders() {
        let mut sample = Sample::new();
        streams(&mut sample);
        for (at, flags, stream) in [(8, 0, 0x70u64), (9, 1, 0x80)] {
            sample.call(0, "cuStreamCreate", at..at + 1, &[0x100, flags], &[(0x100, &stream.to_le_bytes())]);
        }
        // Calls 6 to 8: on a non-blocking stream, and on two blocking ones.
        [(10, 0x50), (12, 0x60), (14, 0x70)].into_iter().for_each(|(at, stream)| fill(&mut sample, at, stream));
        let unordered = |sample: &Sample| {
            let (trace, mut walk) = (sample.trace(), Outstanding::default());
            let last = trace.calls().last().expect("a call");
            trace.calls().take_while(|call| call.number < last.number).for_each(|call| {
                walk.see(&call, call.function().unwrap(), &Objects::default());
            });
            let is_found = |call: &u64| {
                let found = walk.unordered(&last, last.function().unwrap(), |other| other == *call);
                found.is_some_and(|(found, _)| found == *call)
            };
            (0..last.number).filter(is_found).collect::<Vec<u64>>()
        };
        // A blocking stream waits for nothing of the other, as nothing stands in the legacy stream, which waits for both.
        fill(&mut sample, 16, 0x60);
        assert_eq!(unordered(&sample), [6, 8]);
        // Behind what stands in the legacy stream, it does. What came to the other since is not covered.
        fill(&mut sample, 20, 0);
        assert_eq!(unordered(&sample), [6]);
        fill(&mut sample, 22, 0x60);
        fill(&mut sample, 24, 0x70);
        assert_eq!(unordered(&sample), [6, 11]);
        // By events, also of a stream that had waited itself.
        sample.call(0, "cuEventRecord", 30..31, &[0xe0, 0x60], &[]);
        sample.call(0, "cuStreamWaitEvent", 32..33, &[0x50, 0xe0, 0], &[]);
        fill(&mut sample, 34, 0x50);
        assert_eq!(unordered(&sample), [12]);
        sample.call(0, "cuEventRecord", 36..37, &[0xe1, 0x50], &[]);
        sample.call(0, "cuStreamWaitEvent", 38..39, &[0x80, 0xe1, 0], &[]);
        fill(&mut sample, 40, 0x80);
        assert_eq!(unordered(&sample), [12]);
    }

    #[test]
    fn a_callback_that_began_covers_what_stood_before_it() {
        let mut sample = Sample::new();
        streams(&mut sample);
        fill(&mut sample, 10, 0x50);
        sample.call(0, "cuLaunchHostFunc", 12..13, &[0x50, 0x1000, 0], &[]);
        fill(&mut sample, 14, 0x60);
        // What its stream waits for later says nothing of the callback.
        sample.call(0, "cuEventRecord", 16..17, &[0xe0, 0x60], &[]);
        sample.call(0, "cuStreamWaitEvent", 18..19, &[0x50, 0xe0, 0], &[]);
        assert_eq!(left(&sample), [("stream#1".to_owned(), 2), ("stream#2".to_owned(), 1)]);
        let (trace, mut walk) = (sample.trace(), Outstanding::default());
        for call in trace.calls() {
            walk.see(&call, call.function().unwrap(), &Objects::default());
        }
        walk.called_back(5, true);
        let left: Vec<Vec<u64>> =
            walk.left().into_iter().map(|work| work.calls).filter(|calls| !calls.is_empty()).collect();
        assert_eq!(left, [[6]]);
    }

    #[test]
    fn the_legacy_stream_waits_for_blocking_ones() {
        let mut sample = Sample::new();
        streams(&mut sample);
        for (at, stream) in [(10, 0x50), (12, 0x60), (14, 0)] {
            fill(&mut sample, at, stream);
        }
        assert_eq!(left(&sample).len(), 3);
        sample.call(0, "cuStreamSynchronize", 20..21, &[0], &[]);
        assert_eq!(left(&sample), [("stream#1".to_owned(), 1)]);
        sample.call(0, "cuCtxSynchronize", 22..23, &[], &[]);
        assert_eq!(left(&sample), []);
    }
}
