//! From a trace to lanes: calls are read in parallel, block by block; what depends on order is followed after each block.

use super::event::{Category, Flags};
use super::findings::Collector;
use super::lane::{Lane, Queue, Source};
use super::memory::Usage;
use super::ops::{Named, Op, Plan, What};
use super::streams::{Streams, Work};
use super::tables::{Collected, Load, rows};
use super::{Model, Name, Summary};
use std::collections::HashMap;
use std::ops::Range;
use trace::api::enums::CUresult;
use trace::text::symbol;
use trace::{Call, Trace};

/// Calls read by one worker at a time: enough to keep it busy, few enough that what they leave stays small.
const BLOCK: u64 = 1 << 18;
/// Module loads that the table lists.
const LOADS: usize = 10_000;

/// An answer, not an error.
pub const NOT_READY: u32 = CUresult::CUDA_ERROR_NOT_READY.0;

#[derive(Debug, thiserror::Error)]
#[error("{calls} calls: the viewer numbers them with 32 bits, and takes up to {}", u32::MAX)]
pub struct TooMany {
    calls: usize,
}

/// A call as its lane will hold it.
struct Found {
    begin: u64,
    /// u64::MAX: it did not return.
    end: u64,
    call: u32,
    sequence: u32,
    name: u32,
    flags: u8,
    inner: bool,
}

/// What one worker read.
struct Block {
    by_thread: HashMap<u32, Vec<Found>>,
    ops: Vec<Op>,
    failed: Vec<(u32, u16, u32, u64)>,
    concerned: Vec<u32>,
    collected: Vec<Collected>,
    /// The latest stamp.
    end: u64,
}

/// The calls of a thread, lane by lane.
#[derive(Default)]
struct Thread {
    lanes: Vec<Lane>,
    /// Calls that enclose what comes next: their ends, ns.
    open: Vec<u64>,
    calls: u64,
    /// Where the count of calls and the numbers in the file part: (calls so far, number on the thread).
    jumps: Vec<(u64, u32)>,
    expected: u32,
}

/// Everything but the names of objects.
pub fn build(trace: &Trace) -> Result<Model, TooMany> {
    if trace.len() > u32::MAX as usize {
        return Err(TooMany { calls: trace.len() });
    }
    let plans = Plan::all(trace);
    let mut building = Building::new(trace);
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get()) as u64;
    let calls = trace.len() as u64;
    // Small traces are split among the workers too.
    let size = calls.div_ceil(workers).clamp(1, BLOCK);
    let mut next = 0;
    while next < calls {
        let ranges: Vec<Range<u64>> =
            (0..workers).map(|n| (next + n * size).min(calls)..(next + (n + 1) * size).min(calls)).collect();
        next = ranges.last().map_or(calls, |range| range.end);
        let blocks: Vec<Block> = std::thread::scope(|scope| {
            let started: Vec<_> = ranges.into_iter().map(|range| scope.spawn(|| read(trace, &plans, range))).collect();
            started.into_iter().map(|worker| worker.join().expect("reading does not panic")).collect()
        });
        blocks.into_iter().for_each(|block| building.take(block, &plans));
    }
    Ok(building.finish())
}

fn ns(trace: &Trace, ticks: u64) -> u64 {
    trace.nanoseconds(ticks).max(0) as u64
}

fn read(trace: &Trace, plans: &[Plan], range: Range<u64>) -> Block {
    let mut block = Block {
        by_thread: HashMap::new(),
        ops: Vec::new(),
        failed: Vec::new(),
        concerned: Vec::new(),
        collected: vec![Collected::default(); plans.len()],
        end: 0,
    };
    for number in range {
        let Some(call) = trace.call(number) else { continue };
        let plan = plans.get(usize::from(function_id(&call)));
        let category = plan.map_or(Category::Other, |plan| plan.category);
        let failed = call.result.is_some_and(|result| result != 0 && result != NOT_READY);
        let begin = ns(trace, call.begin);
        let end = call.end.map_or(u64::MAX, |end| ns(trace, end));
        block.end = block.end.max(if end == u64::MAX { begin } else { end });
        let (function, number) = (function_id(&call), number as u32);
        let flags = Flags::new(category, failed, call.end.is_none()).0;
        let (name, sequence, inner) = (function.into(), call.sequence, call.inner);
        let found = Found { begin, end, call: number, sequence, name, flags, inner };
        block.by_thread.entry(call.thread).or_default().push(found);
        let took = if end == u64::MAX { 0 } else { end - begin };
        if let Some(collected) = block.collected.get_mut(usize::from(function)) {
            collected.add(number, took, failed, 0);
        }
        if failed {
            block.failed.push((number, function, call.result.unwrap_or(0), took));
        }
        let Some(plan) = plan else { continue };
        if plan.concerned {
            block.concerned.push(number);
        }
        if plan.matters()
            && !call.inner
            && let Some(what) = plan.op(&call)
        {
            block.ops.push(Op { call: number, thread: call.thread, begin, end, function, what });
        }
    }
    block
}

fn function_id(call: &Call) -> u16 {
    call.function_id()
}

struct Building<'t> {
    trace: &'t Trace,
    /// When the last thing happened, ns.
    end: u64,
    names: Vec<Name>,
    /// Kernel ids to names.
    kernels: HashMap<u32, u32>,
    threads: HashMap<u32, Thread>,
    streams: Streams,
    memory: Usage,
    findings: Collector,
    functions: Vec<Collected>,
    launches: Vec<Collected>,
    moves: Vec<Collected>,
    loads: Vec<Load>,
    concerned: Vec<u32>,
}

impl<'t> Building<'t> {
    fn new(trace: &'t Trace) -> Building<'t> {
        let functions = trace.preamble.functions.iter().enumerate().map(|(id, (name, _))| {
            let category = trace.function(id as u16).map_or(Category::Other, |f| Category::of(f.class, f.name));
            Name { text: crate::text::tame(name), category: category as u8, kernel: false }
        });
        let mut names: Vec<Name> = functions.collect();
        let mut sorted: Vec<_> = trace.kernels.values().collect();
        sorted.sort_by_key(|kernel| kernel.id);
        let (mut kernels, mut known) = (HashMap::new(), HashMap::new());
        for kernel in sorted {
            // A kernel that was loaded again is the same one to the reader.
            let name = *known.entry(kernel.name.as_str()).or_insert_with(|| {
                let text = crate::text::tame(&kernel.name);
                names.push(Name { text, category: Category::Launch as u8, kernel: true });
                names.len() as u32 - 1
            });
            kernels.insert(kernel.id, name);
        }
        let (functions, of_names) = (trace.preamble.functions.len(), names.len());
        Building {
            trace,
            end: 0,
            names,
            kernels,
            threads: HashMap::new(),
            streams: Streams::default(),
            memory: Usage::default(),
            findings: Collector::default(),
            functions: vec![Collected::default(); functions],
            launches: vec![Collected::default(); of_names],
            moves: vec![Collected::default(); functions],
            loads: Vec::new(),
            concerned: Vec::new(),
        }
    }

    fn take(&mut self, block: Block, plans: &[Plan]) {
        self.end = self.end.max(block.end);
        for (thread, found) in block.by_thread {
            let lanes = self.threads.entry(thread).or_default();
            found.into_iter().for_each(|found| lanes.push(thread, found));
        }
        for (into, from) in self.functions.iter_mut().zip(block.collected) {
            into.merge(from);
        }
        for (call, function, result, took) in block.failed {
            let function = self.trace.function_name(function);
            self.findings.failed(function, symbol(CUresult::ENUM, result.into()), call, took);
        }
        self.concerned.extend(block.concerned);
        for op in &block.ops {
            let category = plans.get(usize::from(op.function)).map_or(Category::Other, |plan| plan.category);
            self.follow(op, category);
        }
    }

    fn follow(&mut self, op: &Op, category: Category) {
        let took = op.end - op.begin;
        let streams = &mut self.streams;
        match op.what {
            What::Work { on, kernel, host, bytes } => {
                let name = self.kernels.get(&kernel).copied().unwrap_or(op.function.into());
                match category {
                    Category::Launch => self.launches[name as usize].add(op.call, took, false, 0),
                    Category::Copy => {
                        self.moves[usize::from(op.function)].add(op.call, took, false, bytes);
                        self.findings.copied(host, op.call, took, false);
                    }
                    _ => {}
                }
                if !streams.is_captured(on.stream) {
                    streams.submit(op, on, name, Flags::new(category, false, false).0);
                }
            }
            What::Copied { own, host, bytes } => {
                self.moves[usize::from(op.function)].add(op.call, took, false, bytes);
                self.findings.copied(host, op.call, took, true);
                let on = Named { stream: 0, own };
                streams.submit(op, on, op.function.into(), Flags::new(category, false, false).0);
                // It covers itself.
                streams.stream_done(&Op { call: op.call + 1, ..*op }, on);
            }
            What::StreamDone { on, waited } => {
                if streams.stream_done(op, on) == 0 && waited && !streams.is_captured(on.stream) {
                    self.findings.needless(op.call, took);
                }
            }
            What::EventDone { event, waited } => {
                if streams.event_done(op, event) == 0 && waited {
                    self.findings.needless(op.call, took);
                }
            }
            What::ContextDone { context } => {
                if streams.context_done(op, context) == 0 {
                    self.findings.needless(op.call, took);
                }
            }
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
            What::Allocated { address, bytes, pooled } => {
                let context = (!pooled).then(|| streams.context(op.thread));
                self.memory.add(op.end, address, bytes, streams.device(op.thread), context, op.call);
            }
            What::Freed { address } => self.memory.remove(op.begin, address),
            What::HostAllocated { address, bytes } => self.findings.pin(address, bytes),
            What::HostFreed { address } => self.findings.unpin(address),
            What::Loaded { image, bytes } => {
                self.findings.loaded(image, op.call, took);
                if self.loads.len() < LOADS {
                    self.loads.push(Load { call: op.call, name: op.function.into(), bytes, image, took });
                }
            }
        }
    }

    fn finish(self) -> Model {
        let end = self.end;
        let mut jumps: Vec<(u32, Vec<(u64, u32)>)> = Vec::new();
        let mut threads: Vec<_> = self.threads.into_iter().collect();
        threads.sort_by_key(|(thread, _)| *thread);
        let mut lanes: Vec<Lane> = Vec::new();
        for (thread, found) in threads {
            jumps.push((thread, found.jumps));
            lanes.extend(found.lanes.into_iter().map(|lane| closed(lane, end)));
        }
        let gaps = self.streams.gaps;
        let mut work: Vec<Work> = self.streams.work.into_iter().filter(|work| !work.begin.is_empty()).collect();
        work.sort_by_key(|work| (work.queue.device, work.queue.context, work.queue.call));
        lanes.extend(work.into_iter().map(|work| stream_lane(work, end)));
        std::thread::scope(|scope| {
            for lane in &mut lanes {
                scope.spawn(|| lane.build_pyramid());
            }
        });
        let findings = self.findings.finish(&gaps, &self.memory, self.trace.footer.is_some());
        let mut longest = gaps;
        longest.sort_by_key(|gap| std::cmp::Reverse(gap.length()));
        longest.truncate(10_000);
        longest.sort_by_key(|gap| gap.begin);
        let summary = Summary {
            calls: self.trace.len() as u64,
            end,
            names: self.names,
            jumps,
            functions: rows(self.functions),
            kernels: rows(self.launches),
            moves: rows(self.moves),
            loads: self.loads,
            findings,
            gaps: longest,
            closed: self.trace.footer.is_some(),
        };
        Model { summary, lanes, memory: self.memory.into_lanes(), concerned: self.concerned.into(), lives: None }
    }
}

impl Thread {
    fn push(&mut self, thread: u32, found: Found) {
        if self.calls == 0 || found.sequence != self.expected {
            self.jumps.push((self.calls, found.sequence));
        }
        self.expected = found.sequence.wrapping_add(1);
        self.calls += 1;
        if found.inner {
            while self.open.last().is_some_and(|end| *end <= found.begin) {
                self.open.pop();
            }
        } else {
            self.open.clear();
        }
        let depth = self.open.len();
        self.open.push(found.end);
        while self.lanes.len() <= depth {
            let depth = self.lanes.len() as u32;
            self.lanes.push(Lane::empty(Source::Thread { thread, depth }));
        }
        push(&mut self.lanes[depth], found.begin, found.end, found.name, found.flags, found.call);
    }
}

/// Puts an event behind the others; the one before ends by then at the latest.
fn push(lane: &mut Lane, begin: u64, end: u64, name: u32, flags: u8, call: u32) {
    use super::column::Column::Owned;
    let (Owned(begins), Owned(lengths), Owned(long), Owned(names), Owned(all), Owned(calls)) =
        (&mut lane.begin, &mut lane.length, &mut lane.long, &mut lane.name, &mut lane.flags, &mut lane.call)
    else {
        unreachable!("a lane under construction is not mapped");
    };
    if let (Some(last), Some(length)) = (begins.last(), lengths.last_mut()) {
        let at = begins.len() as u64 - 1;
        let room = begin.saturating_sub(*last);
        let was = match long.last() {
            Some([of, length]) if *of == at => *length,
            _ => u64::from(*length),
        };
        if was > room {
            long.pop_if(|[of, _]| *of == at);
            if room < u32::MAX.into() {
                *length = room as u32;
            } else {
                (*length, _) = (u32::MAX, long.push([at, room]));
            }
        }
    }
    let length = end.saturating_sub(begin);
    if length >= u32::MAX.into() {
        long.push([begins.len() as u64, length]);
    }
    begins.push(begin);
    lengths.push(length.min(u32::MAX.into()) as u32);
    names.push(name);
    all.push(flags);
    calls.push(call);
}

/// Ends what did not return when the trace does.
fn closed(mut lane: Lane, end: u64) -> Lane {
    use super::column::Column::Owned;
    if let (Owned(begins), Owned(lengths), Owned(long)) = (&lane.begin, &mut lane.length, &mut lane.long)
        && let (Some(begin), Some(length)) = (begins.last(), lengths.last_mut())
        && let Some([of, open]) = long.last_mut()
        && *of == begins.len() as u64 - 1
        && begin.saturating_add(*open) > end
    {
        *open = end.saturating_sub(*begin);
        if *open < u32::MAX.into() {
            *length = *open as u32;
            long.pop();
        }
    }
    lane
}

fn stream_lane(work: Work, end: u64) -> Lane {
    let Work { queue, begin, name, flags, call, done, .. } = work;
    let mut lane = Lane::empty(Source::Stream(Queue { ..queue }));
    for index in 0..begin.len() {
        let next = begin.get(index + 1).copied().unwrap_or(u64::MAX);
        let until = done[index].min(next).min(end).max(begin[index]);
        let open = if done[index] == u64::MAX { Flags::OPEN } else { 0 };
        push(&mut lane, begin[index], until, name[index], flags[index] | open, call[index]);
    }
    lane.done = done.into();
    lane
}
