//! Construction of lanes from a trace: calls are read in parallel, block by block; effects that depend on
//! order are followed after each block.

use super::device::devices;
use super::event::{Category, Flags};
use super::lane::{Lane, Source};
use super::model::{Model, Name, Summary};
use super::ops::{Op, Plan};
use super::ranges::ranges;
use super::streams::Work;
use super::tables::{Collected, rows};
use super::threads::{Calls, LaneCall, closed, cut_last};
use super::walk::{Walk, stream_lane};
use analysis::findings::holes::holes;
use analysis::text::kernel_name::{Names, Style};
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::ops::Range;
use trace::Trace;
use trace::api::enums::CUresult;
use trace::base::parallel;

/// Calls read by one worker at a time: enough to keep it busy, few enough that what they leave stays small.
const BLOCK: u64 = 1 << 16;
/// Idle stretches that are kept, the longest.
const GAPS: usize = 10_000;

/// An answer, not an error.
pub const NOT_READY: u32 = CUresult::CUDA_ERROR_NOT_READY.0;

/// More calls than an index of 32 bits can count.
#[derive(Debug, thiserror::Error)]
#[error("{calls} calls: the viewer supports up to {}", u32::MAX)]
pub struct TooMany {
    calls: usize,
}

/// What one worker read.
struct Block {
    by_thread: FxHashMap<u32, Vec<LaneCall>>,
    ops: Vec<Op>,
    concerned: Vec<u32>,
    collected: Vec<Collected>,
    /// The latest stamp.
    end: u64,
}

/// Everything but the names of objects.
pub fn build(trace: &Trace) -> Result<Model, TooMany> {
    if trace.len() > u32::MAX as usize {
        return Err(TooMany { calls: trace.len() });
    }
    let plans = Plan::all(trace);
    let (names, kernels) = names(trace);
    let mut calls = Calls { functions: vec![Collected::default(); plans.len()], ..Calls::default() };
    let mut walk = Walk::new(trace, kernels, names.len());
    let workers = parallel::processors() as u64;
    let all = trace.len() as u64;
    // Small traces are split among the workers too.
    let size = all.div_ceil(workers).clamp(1, BLOCK);
    let ranges = |first: u64| (0..workers).map(move |n| (first + n * size).min(all)..(first + (n + 1) * size).min(all));
    let mut blocks: Vec<Block> = Vec::new();
    let mut next = 0;
    let until = trace::write::finish::last_moment(trace).map(|until| until.max(0) as u64);
    // What was read is taken in while the next is read.
    while next < all || !blocks.is_empty() {
        let ready = std::mem::take(&mut blocks);
        let some = ranges(next).filter(|range| !range.is_empty());
        let reading = || parallel::map(workers as usize, some, |range| read(trace, &plans, range, until));
        let taking = || {
            for block in ready {
                calls.end = calls.end.max(block.end);
                calls.add_calls(block.by_thread, block.collected, block.concerned);
                walk.advance(&block.ops, &plans);
            }
        };
        (blocks, ()) = parallel::both(reading, taking);
        next = (next + workers * size).min(all);
    }
    Ok(finish(trace, names, calls, walk))
}

/// Functions by their ids, then kernels; and where each kernel's is.
fn names(trace: &Trace) -> (Vec<Name>, HashMap<u32, u32>) {
    let functions = trace.preamble.functions.iter().enumerate().map(|(id, (name, _))| {
        let category = trace.function(id as u16).map_or(Category::Other, Category::from_function);
        Name { text: crate::text::tame(name), category: category as u8, kernel: false }
    });
    let mut names: Vec<Name> = functions.collect();
    let mut sorted: Vec<_> = trace.kernels.values().collect();
    sorted.sort_by_key(|kernel| kernel.id);
    let (mut kernels, mut known) = (HashMap::new(), HashMap::new());
    let demangled = Names::new(Style::Full);
    for kernel in sorted {
        // A kernel that was loaded again is the same one to the reader.
        let name = *known.entry(kernel.name.as_str()).or_insert_with(|| {
            let text = crate::text::tame(&demangled.display_name(&kernel.name));
            names.push(Name { text, category: Category::Launch as u8, kernel: true });
            names.len() as u32 - 1
        });
        kernels.insert(kernel.id, name);
    }
    (names, kernels)
}

fn ns(trace: &Trace, ticks: u64) -> u64 {
    trace.nanoseconds(ticks).max(0) as u64
}

/// `until`: how long a call lasted that has not returned, if that is known.
fn read(trace: &Trace, plans: &[Plan], range: Range<u64>, until: Option<u64>) -> Block {
    let mut block = Block {
        by_thread: FxHashMap::default(),
        ops: Vec::new(),
        concerned: Vec::new(),
        collected: vec![Collected::default(); plans.len()],
        end: 0,
    };
    for number in range {
        let Some(call) = trace.call(number) else { continue };
        let plan = plans.get(usize::from(call.function_id()));
        let category = plan.map_or(Category::Other, |plan| plan.category);
        let failed = call.result.is_some_and(|result| result != 0 && result != NOT_READY);
        let begin = ns(trace, call.begin);
        let end = call.end.map_or(u64::MAX, |end| ns(trace, end));
        // A run of polls is one event.
        let last_end = call.last_end().map_or(u64::MAX, |end| ns(trace, end));
        let last_return = call.last_return().map_or(begin, |end| ns(trace, end));
        let inside = until.filter(|_| call.end.is_none() && call.inside_since().is_some());
        let lasted = inside.map_or(0, |until| until.saturating_sub(begin));
        block.end = block.end.max(if end == u64::MAX { begin + lasted } else { last_return });
        let (function, number) = (call.function_id(), number as u32);
        let flags = Flags::new(category, failed, call.end.is_none()).0;
        let (name, sequence, inner) = (function.into(), call.sequence, call.inner);
        let found = LaneCall { begin, end: last_end, call: number, sequence, name, flags, inner };
        block.by_thread.entry(call.thread).or_default().push(found);
        let took = if end == u64::MAX { lasted } else { end - begin };
        if let Some(collected) = block.collected.get_mut(usize::from(function)) {
            collected.add(number, took, failed, 0);
            collected.add_alike(call.count() - 1, call.repeats_took().max(0) as u64);
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

fn finish(trace: &Trace, mut names: Vec<Name>, calls: Calls, walk: Walk) -> Model {
    // Of a trace that is still being written this moment is the end.
    let now = trace::write::finish::now(trace).map_or(0, |now| now.max(0) as u64);
    let mut end = calls.end.max(now);
    let mut jumps: Vec<(u32, Vec<(u64, u32)>)> = Vec::new();
    let mut threads: Vec<_> = calls.threads.into_iter().collect();
    threads.sort_by_key(|(thread, _)| *thread);
    let mut lanes: Vec<Lane> = Vec::new();
    let mut between = Vec::new();
    for (thread, found) in threads {
        jumps.push((thread, found.jumps));
        between.push((thread, found.between));
        lanes.extend(found.lanes.into_iter().map(|lane| closed(lane, end)));
    }
    let holes = holes(trace, between, end);
    // A thread of which nothing could be read is there all the same.
    for hole in &holes {
        let source = Source::Thread { thread: hole.thread, depth: 0 };
        if !lanes.iter().any(|lane| lane.source == source) {
            lanes.push(Lane::empty(source));
        }
        // What had not returned before it may have returned within.
        let own = |lane: &&mut Lane| matches!(lane.source, Source::Thread { thread, .. } if thread == hole.thread);
        lanes.iter_mut().filter(own).filter(|_| hole.next.is_none()).for_each(|lane| cut_last(lane, hole.begin));
    }
    let ranges = ranges(trace, end, &mut names);
    lanes.extend(ranges.lanes);
    let mut timed = devices(trace, &walk.streams.work, &mut names);
    // What the device says of itself counts more than what the host knows.
    let mut gaps = timed.as_mut().map_or(walk.streams.gaps, |timed| std::mem::take(&mut timed.gaps));
    gaps.sort_by_key(|gap| std::cmp::Reverse(gap.length()));
    gaps.truncate(GAPS);
    gaps.sort_by_key(|gap| gap.begin);
    let mut work: Vec<Work> = walk.streams.work.into_iter().filter(|work| !work.begin.is_empty()).collect();
    let (functions, launches, moves) = (calls.functions, walk.launches, walk.moves);
    let sums = || [functions, launches, moves].map(rows);
    let draw = || {
        let mut work_lanes: Vec<Lane> = Vec::new();
        if let Some(timed) = &timed {
            // What was timed is shown as it was; the rest stays as the host knows it.
            work.iter_mut().for_each(|work| work.retain(|call| !timed.calls.contains(&call)));
            work.retain(|work| !work.begin.is_empty());
            work_lanes.extend(timed.lanes.iter().cloned());
            end = work_lanes.iter().filter_map(|l| Some(l.end(l.len().checked_sub(1)?))).fold(end, u64::max);
        }
        work_lanes.extend(work.into_iter().map(|work| stream_lane(work, end)));
        let place = |lane: &Lane| {
            let timed = matches!(lane.source, Source::Device { .. });
            lane.source.queue().map(|queue| (queue.device, queue.context, queue.call, !timed))
        };
        work_lanes.sort_by_key(place);
        lanes.extend(work_lanes);
        parallel::share(parallel::processors(), &mut lanes, Lane::build_pyramid);
    };
    let ([functions, kernels, moves], ()) = parallel::both(sums, draw);
    let summary = Summary {
        calls: trace.len() as u64,
        end,
        names,
        jumps,
        functions,
        kernels,
        moves,
        timing: timed.map(|timed| timed.timing),
        ranges: ranges.rows,
        domains: ranges.domains,
        loads: walk.loads,
        gaps,
        holes,
        closed: trace.footer.is_some(),
    };
    Model { summary, lanes, memory: walk.memory.into_lanes(), concerned: calls.concerned.into() }
}
