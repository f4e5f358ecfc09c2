//! `nvtx_kern_sum`, `nvtx_pushpop_trace`, `nvtx_startend_trace` and `nvtx_gpu_proj_trace`, with the columns
//! of Nsight Systems.

use super::enclosing::Enclosing;
use super::nvtx::{children, duration, lanes, name, style};
use super::{Scope, further, os_id};
use crate::error::Result;
use crate::filter::progress::Progress;
use crate::tables::durations::Durations;
use crate::tables::render::Output;
use crate::tables::table::{Cell, Head, Layout, Table, same};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::iter::successors;
use trace::file::record::annotated;
use trace::read::annotation::Range;

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

/// Ranges round one that a row tells of. A program that pushes and never pops has thousands of them, and each
/// row would tell of all.
const DEPTH: usize = 256;

/// A range and a kernel within it, on one thread.
#[derive(Default)]
struct KernelInRanges {
    ranges: BTreeSet<usize>,
    times: Durations,
}

/// Kernels count for every range that was open on their thread when they were launched.
pub(crate) fn kernels(scope: &Scope) -> Vec<Table> {
    let trace = scope.trace;
    let enclosing = Enclosing::new(trace.annotated_ranges());
    let mut groups: HashMap<(String, &str, u32, String), KernelInRanges> = HashMap::new();
    let mut is_cut = false;
    for work in scope.works().filter(|work| work.is_kernel()) {
        let Some(call) = work.call.and_then(|call| trace.call(call)) else { continue };
        let (kernel, mut around) = (scope.name(&work), enclosing.open_at(call.thread, call.begin));
        for at in around.by_ref().take(DEPTH) {
            let range = &enclosing.ranges[at];
            let group = groups.entry((name(range), style(range), call.thread, kernel.clone())).or_default();
            group.ranges.insert(at);
            group.times.add(work.duration());
        }
        is_cut |= around.next().is_some();
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
    table.note("a kernel counts in each range around its launch");
    if is_cut {
        table.note(format!("only the innermost {DEPTH} ranges around a kernel count"));
    }
    vec![table]
}

/// By pushed range the one round it in its domain.
fn parents(ranges: &[Range]) -> Vec<Option<usize>> {
    let mut open: HashMap<(u32, u32), Vec<usize>> = HashMap::new();
    let parent = |(at, range): (usize, &Range)| {
        let is_pushed = range.opened.about.what == annotated::PUSH;
        let stack = is_pushed.then(|| open.entry((range.opened.thread, range.opened.about.domain)).or_default())?;
        stack.truncate(range.depth as usize);
        let parent = stack.last().copied();
        stack.push(at);
        parent
    };
    ranges.iter().enumerate().map(parent).collect()
}

/// The ranges round one, and itself: `:1:4`, of many `...:3:4`.
fn stack(parents: &[Option<usize>], range: usize) -> String {
    let mut around: Vec<usize> = successors(Some(range), |at| parents[*at]).take(DEPTH + 1).collect();
    let is_cut = around.len() > DEPTH;
    around.truncate(DEPTH);
    let start = if is_cut { "..." } else { "" };
    around.iter().rev().fold(start.to_owned(), |text, at| text + &format!(":{}", at + 1))
}

/// Says what a row leaves out, if it does.
fn cut(ranges: &[Range], what: &str) -> Option<String> {
    let deepest = ranges.iter().map(|range| range.depth as usize + 1).max().unwrap_or(0);
    (deepest > DEPTH).then(|| format!("ranges are {deepest} deep, and {what}"))
}

/// Rows as they come: there may be more of them than memory holds.
fn write(
    out: &mut Output<impl Write>,
    head: Head,
    widths: &[usize],
    rows: impl Iterator<Item = Vec<Cell>>,
    limit: u64,
    notes: Vec<String>,
    progress: &dyn Progress,
) -> Result<()> {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return out.table(&Table { notes, ..Table::new(head) });
    }
    out.begin(head, widths.to_vec())?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    rows.by_ref().take(limit).take_while(|_| !progress.is_unread()).try_for_each(|row| out.row(&row))?;
    let notes: Vec<String> = further(rows, progress).into_iter().chain(notes).collect();
    out.end(&notes)
}

/// As it is numbered in all of these reports.
fn number(range: usize) -> Cell {
    Cell::Number(range as u64 + 1)
}

/// Widths of columns are guesses: rows come one by one.
const PUSHED_WIDTHS: [usize; 14] = [16, 16, 13, 13, 16, 24, 8, 8, 3, 8, 7, 8, 12, 24];

pub(crate) fn pushed(
    scope: &Scope,
    limit: u64,
    out: &mut Output<impl Write>,
    progress: &mut dyn Progress,
) -> Result<()> {
    let trace = scope.trace;
    let ranges = trace.annotated_ranges();
    let (parents, children) = (parents(&ranges), children(&ranges));
    let mut within = vec![0; ranges.len()];
    for (range, parent) in ranges.iter().zip(&parents) {
        if let Some(parent) = parent {
            within[*parent] += duration(scope, range).unwrap_or(0);
        }
    }
    let pushed = ranges.iter().enumerate().filter(|(_, range)| range.opened.about.what == annotated::PUSH);
    let rows = pushed.filter_map(|(at, range)| {
        let name = name(range);
        if !scope.is_opened_here(range, &name) {
            return None;
        }
        let took = duration(scope, range);
        Some(vec![
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
            parents[at].map(number).into(),
            stack(&parents, at).into(),
            format!("{}{name}", "--".repeat(DEPTH.min(range.depth as usize))).into(),
        ])
    });
    let what = format!("RangeStack has the innermost {DEPTH}; NameTree is indented no further");
    write(out, PUSHED, &PUSHED_WIDTHS, rows, limit, cut(&ranges, &what).into_iter().collect(), progress)
}

pub(crate) fn started(scope: &Scope) -> Vec<Table> {
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

const PROJECTED_WIDTHS: [usize; 14] = [24, 20, 23, 15, 18, 8, 8, 8, 9, 3, 8, 7, 8, 12];

pub(crate) fn projected(
    scope: &Scope,
    limit: u64,
    out: &mut Output<impl Write>,
    progress: &mut dyn Progress,
) -> Result<()> {
    let trace = scope.trace;
    let (ranges, lanes) = (trace.annotated_ranges(), lanes(scope));
    let (parents, children) = (parents(&ranges), children(&ranges));
    let rows = ranges.iter().enumerate().filter_map(|(at, range)| {
        let projected = lanes.get(&range.opened.thread)?.project(range)?;
        Some(vec![
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
            parents[at].map(number).into(),
            stack(&parents, at).into(),
        ])
    });
    let mut notes = scope.notes();
    notes.push("ranges without device work are not listed; projected times are device times".into());
    notes.extend(cut(&ranges, &format!("RangeStack has the innermost {DEPTH}")));
    write(out, PROJECTED, &PROJECTED_WIDTHS, rows, limit, notes, progress)
}
