//! `nvtx_sum`, `nvtx_pushpop_sum`, `nvtx_startend_sum` and `nvtx_gpu_proj_sum`, with the columns of Nsight
//! Systems.
//!
//! A range is projected onto the device from the first start to the last end of the work that its thread's
//! calls submitted within it when recorded.

use super::Scope;
use crate::tables::durations::{Durations, followed_by};
use crate::tables::table::{Cell, Head, Layout, Table, same};
use crate::text::figures::counted;
use std::cmp::Reverse;
use std::collections::HashMap;
use trace::file::record::annotated;
use trace::read::annotation::Range;

const ALL: Head = Head {
    report: "nvtx_sum",
    part: "",
    title: "NVTX Range Summary (nvtx_sum)",
    columns: &followed_by::<2, 10>([same("Style"), same("Range")]),
    layout: Layout::Grid,
};

const PUSHED: Head = Head {
    report: "nvtx_pushpop_sum",
    part: "",
    title: "NVTX Push/Pop Range Summary (nvtx_pushpop_sum)",
    columns: &followed_by::<1, 9>([same("Range")]),
    layout: Layout::Grid,
};

const STARTED: Head = Head {
    report: "nvtx_startend_sum",
    part: "",
    title: "NVTX Start/End Range Summary (nvtx_startend_sum)",
    columns: &followed_by::<1, 9>([same("Range")]),
    layout: Layout::Grid,
};

const PROJECTED: Head = Head {
    report: "nvtx_gpu_proj_sum",
    part: "",
    title: "NVTX GPU Projection Summary (nvtx_gpu_proj_sum)",
    columns: &[
        same("Range"),
        same("Style"),
        same("Total Proj Time (ns)"),
        same("Total Range Time (ns)"),
        same("Range Instances"),
        same("Proj Avg (ns)"),
        same("Proj Med (ns)"),
        same("Proj Min (ns)"),
        same("Proj Max (ns)"),
        same("Proj StdDev (ns)"),
        same("Total GPU Ops"),
        same("Avg GPU Ops"),
        same("Avg Range Lvl"),
        same("Avg Num Child"),
    ],
    layout: Layout::Grid,
};

/// Domain and message, as Nsight Systems writes them: `domain:message`, the default domain without a name.
pub(crate) fn name(range: &Range) -> String {
    let message = range.opened.message.as_deref().unwrap_or("");
    format!("{}:{message}", range.opened.domain.as_deref().unwrap_or(""))
}

pub(crate) fn style(range: &Range) -> &'static str {
    if range.opened.about.what == annotated::PUSH { "PushPop" } else { "StartEnd" }
}

pub(crate) fn duration(scope: &Scope, range: &Range) -> Option<i64> {
    Some(scope.trace.nanoseconds(range.end?) - scope.trace.nanoseconds(range.opened.about.time))
}

/// Style and name, and how long the ranges took.
type Group = ((&'static str, String), Durations);

/// Ranges by style and name, longest in all first; and how many did not end.
fn summed(scope: &Scope, wanted: impl Fn(&Range) -> bool) -> (Vec<Group>, u64) {
    let mut groups: HashMap<(&str, String), Durations> = HashMap::new();
    let mut open = 0;
    for range in scope.trace.annotated_ranges().iter().filter(|range| wanted(range)) {
        let name = name(range);
        match duration(scope, range) {
            _ if !scope.is_opened_here(range, &name) => {}
            Some(ns) => groups.entry((style(range), name)).or_default().add(ns),
            None => open += 1,
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|(a, one), (b, other)| other.sum.cmp(&one.sum).then_with(|| a.cmp(b)));
    (groups, open)
}

fn unended(table: &mut Table, open: u64) {
    if open > 0 {
        table.note(format!("{} did not end and not counted", counted(open, "range") + " that"));
    }
}

pub(crate) fn all(scope: &Scope) -> Vec<Table> {
    let (groups, open) = summed(scope, |_| true);
    let whole = groups.iter().fold(0i64, |all, (_, durations)| all.saturating_add(durations.sum));
    let mut table = Table::new(ALL);
    for ((style, name), durations) in groups {
        table.row([&durations.cells(whole)[..], &[style.into(), name.into()]].concat());
    }
    unended(&mut table, open);
    vec![table]
}

pub(crate) fn pushed(scope: &Scope) -> Vec<Table> {
    by_name(scope, PUSHED, |range| range.opened.about.what == annotated::PUSH)
}

pub(crate) fn started(scope: &Scope) -> Vec<Table> {
    by_name(scope, STARTED, |range| range.opened.about.what != annotated::PUSH)
}

fn by_name(scope: &Scope, head: Head, wanted: impl Fn(&Range) -> bool) -> Vec<Table> {
    let (groups, open) = summed(scope, wanted);
    let whole = groups.iter().fold(0i64, |all, (_, durations)| all.saturating_add(durations.sum));
    let mut table = Table::new(head);
    for ((_, name), durations) in groups {
        table.row([&durations.cells(whole)[..], &[name.into()]].concat());
    }
    unended(&mut table, open);
    vec![table]
}

/// The first start and the last end among the works of a run of calls.
struct Spans {
    /// A binary tree over the works, its leaves in the second half.
    nodes: Vec<(i64, i64)>,
    leaves: usize,
}

const NONE: (i64, i64) = (i64::MAX, i64::MIN);

fn joined(one: (i64, i64), other: (i64, i64)) -> (i64, i64) {
    (one.0.min(other.0), one.1.max(other.1))
}

impl Spans {
    fn new(works: &[(i64, i64)]) -> Spans {
        let leaves = works.len();
        let mut nodes = vec![NONE; 2 * leaves];
        nodes[leaves..].copy_from_slice(works);
        for at in (1..leaves).rev() {
            nodes[at] = joined(nodes[2 * at], nodes[2 * at + 1]);
        }
        Spans { nodes, leaves }
    }

    fn span_of(&self, from: usize, to: usize) -> Option<(i64, i64)> {
        let (mut span, mut from, mut to) = (NONE, from + self.leaves, to + self.leaves);
        while from < to {
            if from % 2 == 1 {
                span = joined(span, self.nodes[from]);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                span = joined(span, self.nodes[to]);
            }
            (from, to) = (from / 2, to / 2);
        }
        (span != NONE).then_some(span)
    }
}

/// The works of a thread, by the recorded times of their calls (ticks).
pub(crate) struct Lane {
    calls: Vec<u64>,
    spans: Spans,
}

pub(crate) fn lanes(scope: &Scope) -> HashMap<u32, Lane> {
    let mut threads: HashMap<u32, Vec<(u64, i64, i64)>> = HashMap::new();
    for work in scope.works() {
        if let Some(call) = work.call.and_then(|call| scope.trace.call(call)) {
            threads.entry(call.thread).or_default().push((call.begin, work.about.start, work.about.end));
        }
    }
    let lane = |mut works: Vec<(u64, i64, i64)>| {
        works.sort_unstable();
        let calls = works.iter().map(|(call, ..)| *call).collect();
        let spans: Vec<(i64, i64)> = works.into_iter().map(|(_, start, end)| (start, end)).collect();
        Lane { calls, spans: Spans::new(&spans) }
    };
    threads.into_iter().map(|(thread, works)| (thread, lane(works))).collect()
}

/// A range on the device: its work, from the first start to the last end.
pub(crate) struct Projection {
    pub start: i64,
    pub end: i64,
    pub works: u64,
}

impl Lane {
    /// None if the range has no work.
    pub(crate) fn project(&self, range: &Range) -> Option<Projection> {
        let (from, to) = (range.opened.about.time, range.end.unwrap_or(u64::MAX));
        let from = self.calls.partition_point(|call| *call < from);
        let to = self.calls.partition_point(|call| *call < to).max(from);
        let (start, end) = self.spans.span_of(from, to)?;
        Some(Projection { start, end, works: (to - from) as u64 })
    }
}

#[derive(Default)]
struct Projected {
    times: Durations,
    ranges: i64,
    works: u64,
    levels: u64,
    children: u64,
}

/// How many ranges each range holds that lie in no other one within it.
pub(crate) fn children(ranges: &[Range]) -> Vec<u64> {
    let mut counts = vec![0; ranges.len()];
    let mut open: HashMap<(u32, u32), Vec<usize>> = HashMap::new();
    let pushed = |range: &Range| range.opened.about.what == annotated::PUSH;
    for (at, range) in ranges.iter().enumerate().filter(|(_, range)| pushed(range)) {
        let stack = open.entry((range.opened.thread, range.opened.about.domain)).or_default();
        stack.truncate(range.depth as usize);
        if let Some(parent) = stack.last() {
            counts[*parent] += 1;
        }
        stack.push(at);
    }
    counts
}

pub(crate) fn projected(scope: &Scope) -> Vec<Table> {
    let (ranges, lanes) = (scope.trace.annotated_ranges(), lanes(scope));
    let children = children(&ranges);
    let mut groups: HashMap<(&str, String), Projected> = HashMap::new();
    for (range, children) in ranges.iter().zip(children) {
        let Some(found) = lanes.get(&range.opened.thread).and_then(|lane| lane.project(range)) else { continue };
        let group = groups.entry((style(range), name(range))).or_default();
        group.times.add(found.end - found.start);
        group.ranges += duration(scope, range).unwrap_or(0);
        group.works += found.works;
        group.levels += u64::from(range.depth);
        group.children += children;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|(a, one), (b, other)| (Reverse(one.times.sum), a).cmp(&(Reverse(other.times.sum), b)));
    let mut table = Table::new(PROJECTED);
    for ((style, name), group) in groups {
        let (figures, count) = (group.times.figures(), group.times.count as f64);
        table.row([
            name.into(),
            style.into(),
            Cell::Nanoseconds(group.times.sum),
            Cell::Nanoseconds(group.ranges),
            Cell::Count(group.times.count),
            Cell::Real(figures.average),
            Cell::Real(figures.median),
            Cell::Nanoseconds(figures.min),
            Cell::Nanoseconds(figures.max),
            Cell::Real(figures.deviation),
            Cell::Count(group.works),
            Cell::Real(group.works as f64 / count),
            Cell::Real(group.levels as f64 / count),
            Cell::Real(group.children as f64 / count),
        ]);
    }
    table.notes = scope.notes();
    table.note(
        "Range times are host times of the recording, projected times are device times; ranges without device work are not listed",
    );
    vec![table]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_those_of_a_scan() {
        let works: Vec<(i64, i64)> = (0..37).map(|n: i64| ((n * 17) % 37, (n * 23) % 37 + 40)).collect();
        let spans = Spans::new(&works);
        for from in 0..=works.len() {
            for to in from..=works.len() {
                let all = works[from..to].iter().copied().fold(NONE, joined);
                assert_eq!(spans.span_of(from, to), (from < to).then_some(all));
            }
        }
    }
}
