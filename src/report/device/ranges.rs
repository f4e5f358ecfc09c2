//! `nvtx_kern_sum`, `nvtx_pushpop_trace`, `nvtx_startend_trace` and `nvtx_gpu_proj_trace`, with the columns of
//! Nsight Systems.

use super::enclosing::Enclosing;
use super::nvtx::{children, duration, lanes, name, style};
use super::{Scope, os_id};
use crate::report::durations::Durations;
use crate::report::table::{Cell, Head, Layout, Table, same};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use trace::annotation::Range;
use trace::record::annotated;

const KERNELS: Head = Head {
    report: "nvtx_kern_sum",
    part: "",
    title: "NVTX Range Kernel Summary (nvtx_kern_sum)",
    columns: &[
        same("NVTX Range"),
        same("Style"),
        same("PID"),
        same("TID"),
        same("NVTX Inst"),
        same("Kern Inst"),
        same("Total Time (ns)"),
        same("Avg (ns)"),
        same("Med (ns)"),
        same("Min (ns)"),
        same("Max (ns)"),
        same("StdDev (ns)"),
        same("Kernel Name"),
    ],
    layout: Layout::Grid,
};

const PUSHED: Head = Head {
    report: "nvtx_pushpop_trace",
    part: "",
    title: "NVTX Push/Pop Range Trace (nvtx_pushpop_trace)",
    columns: &[
        same("Start (ns)"),
        same("End (ns)"),
        same("Duration (ns)"),
        same("DurChild (ns)"),
        same("DurNonChild (ns)"),
        same("Name"),
        same("PID"),
        same("TID"),
        same("Lvl"),
        same("NumChild"),
        same("RangeId"),
        same("ParentId"),
        same("RangeStack"),
        same("NameTree"),
    ],
    layout: Layout::Grid,
};

const STARTED: Head = Head {
    report: "nvtx_startend_trace",
    part: "",
    title: "NVTX Start/End Range Trace (nvtx_startend_trace)",
    columns: &[
        same("Start (ns)"),
        same("End (ns)"),
        same("Duration (ns)"),
        same("Name"),
        same("PID"),
        same("TID"),
        same("RangeId"),
    ],
    layout: Layout::Grid,
};

const PROJECTED: Head = Head {
    report: "nvtx_gpu_proj_trace",
    part: "",
    title: "NVTX GPU Projection Trace (nvtx_gpu_proj_trace)",
    columns: &[
        same("Name"),
        same("Projected Start (ns)"),
        same("Projected Duration (ns)"),
        same("Orig Start (ns)"),
        same("Orig Duration (ns)"),
        same("Style"),
        same("PID"),
        same("TID"),
        same("NumGPUOps"),
        same("Lvl"),
        same("NumChild"),
        same("RangeId"),
        same("ParentId"),
        same("RangeStack"),
    ],
    layout: Layout::Grid,
};

/// A range and a kernel within it, on one thread.
#[derive(Default)]
struct Within {
    ranges: BTreeSet<usize>,
    times: Durations,
}

/// Kernels count for every range that was open on their thread when they were launched.
pub fn kernels(scope: &Scope) -> Vec<Table> {
    let trace = scope.trace;
    let enclosing = Enclosing::of(trace.annotated_ranges());
    let mut groups: HashMap<(String, &str, u32, String), Within> = HashMap::new();
    for work in scope.works().filter(|work| work.is_kernel()) {
        let Some(call) = work.call.and_then(|call| trace.call(call)) else { continue };
        for at in enclosing.at(call.thread, call.begin) {
            let range = &enclosing.ranges[at];
            let group = groups.entry((name(range), style(range), call.thread, scope.name(&work))).or_default();
            group.ranges.insert(at);
            group.times.add(work.duration());
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|(a, one), (b, other)| (Reverse(one.times.sum), a).cmp(&(Reverse(other.times.sum), b)));
    let mut table = Table::new(KERNELS);
    for ((range, style, thread, kernel), group) in groups {
        let figures = group.times.figures();
        table.row([
            range.into(),
            style.into(),
            Cell::Number(trace.preamble.pid.into()),
            os_id(trace, thread),
            Cell::Count(group.ranges.len() as u64),
            Cell::Count(group.times.count),
            Cell::Nanoseconds(group.times.sum),
            Cell::Real(figures.average),
            Cell::Real(figures.median),
            Cell::Nanoseconds(figures.min),
            Cell::Nanoseconds(figures.max),
            Cell::Real(figures.deviation),
            kernel.into(),
        ]);
    }
    table.notes = scope.notes();
    table.note("a kernel counts for each range that it was launched in");
    vec![table]
}

/// Where a pushed range stands among those around it in its domain.
struct Place {
    parent: Option<usize>,
    /// `:1:4`
    stack: String,
}

/// By range; of those that were started the stack is themselves.
fn places(ranges: &[Range]) -> Vec<Place> {
    let mut open: HashMap<(u32, u32), Vec<usize>> = HashMap::new();
    let mut all: Vec<Place> = Vec::with_capacity(ranges.len());
    for (at, range) in ranges.iter().enumerate() {
        let parent = (range.opened.about.what == annotated::PUSH).then(|| {
            let stack = open.entry((range.opened.thread, range.opened.about.domain)).or_default();
            stack.truncate(range.depth as usize);
            let parent = stack.last().copied();
            stack.push(at);
            parent
        });
        let parent = parent.flatten();
        let around = parent.map_or("", |parent| all[parent].stack.as_str());
        all.push(Place { parent, stack: format!("{around}:{}", at + 1) });
    }
    all
}

/// As it is numbered in all of these reports.
fn number(range: usize) -> Cell {
    Cell::Number(range as u64 + 1)
}

pub fn pushed(scope: &Scope) -> Vec<Table> {
    let trace = scope.trace;
    let ranges = trace.annotated_ranges();
    let (places, children) = (places(&ranges), children(&ranges));
    let mut within = vec![0; ranges.len()];
    for (range, place) in ranges.iter().zip(&places) {
        if let Some(parent) = place.parent {
            within[parent] += duration(scope, range).unwrap_or(0);
        }
    }
    let mut table = Table::new(PUSHED);
    for (at, range) in ranges.iter().enumerate().filter(|(_, range)| range.opened.about.what == annotated::PUSH) {
        let name = name(range);
        if !scope.is_opened_here(range, &name) {
            continue;
        }
        let took = duration(scope, range);
        table.row([
            Cell::Nanoseconds(trace.nanoseconds(range.opened.about.time)),
            range.end.map(|end| Cell::Nanoseconds(trace.nanoseconds(end))).into(),
            took.map(Cell::Nanoseconds).into(),
            Cell::Nanoseconds(within[at]),
            took.map(|took| Cell::Nanoseconds(took - within[at])).into(),
            name.as_str().into(),
            Cell::Number(trace.preamble.pid.into()),
            os_id(trace, range.opened.thread),
            Cell::Number(range.depth.into()),
            Cell::Count(children[at]),
            number(at),
            places[at].parent.map(number).into(),
            places[at].stack.as_str().into(),
            format!("{}{name}", "--".repeat(range.depth as usize)).into(),
        ]);
    }
    vec![table]
}

pub fn started(scope: &Scope) -> Vec<Table> {
    let trace = scope.trace;
    let mut table = Table::new(STARTED);
    for (at, range) in trace.annotated_ranges().iter().enumerate() {
        let name = name(range);
        if range.opened.about.what == annotated::PUSH || !scope.is_opened_here(range, &name) {
            continue;
        }
        table.row([
            Cell::Nanoseconds(trace.nanoseconds(range.opened.about.time)),
            range.end.map(|end| Cell::Nanoseconds(trace.nanoseconds(end))).into(),
            duration(scope, range).map(Cell::Nanoseconds).into(),
            name.into(),
            Cell::Number(trace.preamble.pid.into()),
            os_id(trace, range.opened.thread),
            number(at),
        ]);
    }
    vec![table]
}

pub fn projected(scope: &Scope) -> Vec<Table> {
    let trace = scope.trace;
    let (ranges, lanes) = (trace.annotated_ranges(), lanes(scope));
    let (places, children) = (places(&ranges), children(&ranges));
    let mut table = Table::new(PROJECTED);
    for (at, range) in ranges.iter().enumerate() {
        let Some(projected) = lanes.get(&range.opened.thread).and_then(|lane| lane.within(range)) else { continue };
        table.row([
            name(range).into(),
            Cell::Nanoseconds(projected.start),
            Cell::Nanoseconds(projected.end - projected.start),
            Cell::Nanoseconds(trace.nanoseconds(range.opened.about.time)),
            duration(scope, range).map(Cell::Nanoseconds).into(),
            style(range).into(),
            Cell::Number(trace.preamble.pid.into()),
            os_id(trace, range.opened.thread),
            Cell::Count(projected.works),
            Cell::Number(range.depth.into()),
            Cell::Count(children[at]),
            number(at),
            places[at].parent.map(number).into(),
            places[at].stack.as_str().into(),
        ]);
    }
    table.notes = scope.notes();
    table.note("ranges without work on a device are left out; projected times are those of the work");
    vec![table]
}
