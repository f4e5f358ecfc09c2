//! `gaps`: the reasons why devices and streams were idle, as far as the timed run shows them.
//!
//! A gap ends with work. Until the work's call was made, the host is the reason (`host`); during the call,
//! the way to the device (`launch`); after it, on a stream, the work of other streams on the device (`other
//! work`) as long as there was some. The rest has no visible reason: an event that was waited for, or the
//! device's own time between two pieces of work (`unknown`).

use super::Scope;
use crate::calls::device_work::run;
use crate::calls::streams::Streams;
use crate::findings::finding::{Cost, Finding, IDLE};
use crate::tables::table::{Cell, Head, Layout, Table, column};
use crate::tables::tally::Tally;
use crate::text::figures::{counted, duration};
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use trace::Call;
use trace::model::idle::{self, Idle};
use trace::read::device_times::Work;

const DEVICES: Head = Head {
    report: "gaps",
    part: "causes",
    title: "Busy and idle time by cause (gaps)",
    columns: &[
        column("where", "where"),
        column("cause", "cause"),
        column("time", "time_ns"),
        column("% of span", "percent"),
        column("gaps", "gaps"),
        column("longest", "longest_ns"),
        column("before call", "longest_call"),
    ],
    layout: Layout::Grid,
};

const LONGEST: Head = Head {
    report: "gaps",
    part: "longest",
    title: "The longest gaps by device (gaps)",
    columns: &[
        column("gap", "gap_ns"),
        column("start", "start_ns"),
        column("device", "device"),
        column("host", "host_ns"),
        column("launch", "launch_ns"),
        column("unknown", "unknown_ns"),
        column("call", "call"),
        column("ended by", "work"),
        column("after call", "after_call"),
        column("which was", "after_function"),
        column("and took", "after_ns"),
    ],
    layout: Layout::Grid,
};

/// Gaps that are listed.
const LISTED: usize = 20;
/// Stretches of a device's busy time that are kept to be looked at again: work that waits was submitted not
/// long ago.
const KEPT: usize = 1 << 14;

const CAUSES: [&str; 4] = ["host", "launch", "other work", "unknown"];

#[derive(Default)]
struct Line {
    idle: Idle,
    causes: [Cause; 4],
}

#[derive(Default, Clone, Copy)]
struct Cause {
    time: i64,
    gaps: u64,
    longest: i64,
    call: Option<u64>,
}

impl Line {
    fn blame(&mut self, parts: [i64; 4], call: Option<u64>) {
        for (cause, time) in self.causes.iter_mut().zip(parts).filter(|(_, time)| *time > 0) {
            cause.time += time;
            cause.gaps += 1;
            if time > cause.longest {
                (cause.longest, cause.call) = (time, call);
            }
        }
    }
}

/// When a device was busy: stretches and the busy time before each.
#[derive(Default)]
struct Busy(VecDeque<(i64, i64, i64)>);

impl Busy {
    fn add(&mut self, work: &Work) {
        let (start, end) = (work.about.start, work.about.end);
        match self.0.back_mut() {
            Some((_, until, _)) if *until >= start => *until = end.max(*until),
            last => {
                let before = last.map_or(0, |(from, until, before)| *before + *until - *from);
                self.0.push_back((start, end, before));
            }
        }
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
    }

    fn busy_until(&self, time: i64) -> i64 {
        let after = self.0.partition_point(|(from, ..)| *from <= time);
        let Some((from, end, before)) = after.checked_sub(1).and_then(|at| self.0.get(at)) else {
            return self.0.front().map_or(0, |(.., before)| *before);
        };
        before + time.min(*end) - from
    }

    fn busy_between(&self, from: i64, to: i64) -> i64 {
        if from < to { self.busy_until(to) - self.busy_until(from) } else { 0 }
    }
}

/// A gap by its causes.
fn parts((from, to): (i64, i64), work: &Work, busy: Option<&Busy>) -> [i64; 4] {
    let [host, launch, rest] = idle::parts((from, to), work);
    let other = busy.map_or(0, |busy| busy.busy_between(to - rest, to));
    [host, launch, other, rest - other]
}

pub(crate) fn tables(scope: &Scope) -> Vec<Table> {
    let mut devices: BTreeMap<u32, (Line, Busy)> = BTreeMap::new();
    let (named, mut streams) = (Streams::from_trace(scope.trace), BTreeMap::<(u32, u32, u32), (String, Line)>::new());
    // The shortest of those that are kept comes off first.
    let mut longest: BinaryHeap<(std::cmp::Reverse<i64>, usize)> = BinaryHeap::new();
    let mut kept: Vec<(i64, u32, [i64; 4], Work)> = Vec::new();
    for work in scope.works() {
        let about = &work.about;
        let (line, busy) = devices.entry(about.device).or_default();
        let key = (about.device, about.context, about.stream);
        let (_, stream) = streams.entry(key).or_insert_with(|| (named.title(about), Line::default()));
        if let Some(gap) = stream.idle.gap(&work) {
            stream.blame(parts(gap, &work, Some(busy)), work.call);
        }
        if let Some(gap) = line.idle.gap(&work) {
            let parts = parts(gap, &work, None);
            line.blame(parts, work.call);
            longest.push((std::cmp::Reverse(gap.1 - gap.0), kept.len()));
            kept.push((gap.0, about.device, parts, work));
            if longest.len() > LISTED {
                let (_, at) = longest.pop().expect("not empty");
                // The last takes its place.
                kept.swap_remove(at);
                let moved = kept.len();
                longest =
                    longest.into_iter().map(|(ns, place)| (ns, if place == moved { at } else { place })).collect();
            }
        }
        busy.add(&work);
    }
    let mut table = Table::new(DEVICES);
    let several = streams.len() > 1;
    for (device, (line, _)) in &devices {
        rows(&mut table, &format!("device {device}"), line);
    }
    for ((device, ..), (title, line)) in streams.iter().filter(|_| several) {
        rows(&mut table, &format!("device {device}, {title}"), line);
    }
    table.notes = scope.notes();
    let mut list = Table::new(LONGEST);
    for (_, at) in longest.into_sorted_vec() {
        let (start, device, [host, launch, _, unknown], work) = &kept[at];
        let before = work.call.and_then(|call| previous_call(scope, call));
        list.row([
            Cell::Time(host + launch + unknown),
            Cell::Time(*start),
            Cell::Number((*device).into()),
            Cell::Time(*host),
            Cell::Time(*launch),
            Cell::Time(*unknown),
            work.call.map(Cell::Number).into(),
            scope.name(work).into(),
            before.map(|call| Cell::Number(call.number)).into(),
            before.map(|call| call.name()).into(),
            before
                .and_then(|call| {
                    Some(Cell::Time(scope.trace.nanoseconds(call.end?) - scope.trace.nanoseconds(call.begin)))
                })
                .into(),
        ]);
    }
    list.note("after call: the previous call of the thread that submitted the work, and its time when recorded");
    vec![table, list]
}

fn rows(table: &mut Table, name: &str, line: &Line) {
    let percent = |time: i64| Cell::Percent(time as f64 * 100.0 / line.idle.span().max(1) as f64);
    table.row([
        name.into(),
        "busy".into(),
        Cell::Time(line.idle.busy),
        percent(line.idle.busy),
        Cell::None,
        Cell::None,
        Cell::None,
    ]);
    for (cause, name_of_cause) in line.causes.iter().zip(CAUSES).filter(|(cause, _)| cause.gaps > 0) {
        table.row([
            name.into(),
            name_of_cause.into(),
            Cell::Time(cause.time),
            percent(cause.time),
            Cell::Count(cause.gaps),
            Cell::Time(cause.longest),
            cause.call.map(Cell::Number).into(),
        ]);
    }
}

/// What the thread did before the call, when recorded.
fn previous_call<'t>(scope: &Scope<'t>, call: u64) -> Option<Call<'t>> {
    let thread = scope.trace.call(call)?.thread;
    // Its own call before is near; a thread that is silent for so long was doing something else.
    const FAR: u64 = 4096;
    let mut near = (call.saturating_sub(FAR)..call).rev().filter_map(|number| scope.trace.call(number));
    near.find(|call| call.thread == thread)
}

/// By device: the time it was busy, of how much, and why it was not.
fn lines(scope: &Scope) -> BTreeMap<u32, Line> {
    let mut devices: BTreeMap<u32, Line> = BTreeMap::new();
    for work in scope.works() {
        let line = devices.entry(work.about.device).or_default();
        if let Some(gap) = line.idle.gap(&work) {
            line.blame(parts(gap, &work, None), work.call);
        }
    }
    devices
}

/// Of each device how long it was busy, and from its first work to the end of its last. Nanoseconds.
pub(crate) fn busy(scope: &Scope) -> Vec<(u32, i64, i64)> {
    lines(scope).into_iter().map(|(device, line)| (device, line.idle.busy, line.idle.span())).collect()
}

/// The devices that waited for the host for long.
pub(crate) fn findings(scope: &Scope) -> Vec<Finding> {
    let waited = lines(scope).into_iter().map(|(device, line)| (device, line.causes[0], line.idle));
    let long = waited.filter(|(_, host, idle)| idle.is_much(host.time));
    let finding = |(device, host, idle): (u32, Cause, Idle)| Finding {
        kind: IDLE[0].into(),
        what: format!("device {device} waited for the host"),
        evidence: format!(
            "{} of {} in {} in {}; the longest, {}, before call {}",
            duration(host.time),
            duration(idle.span()),
            scope.trace.profile.as_ref().map_or("?", |profile| run(profile.source)),
            counted(host.gaps, "gap"),
            duration(host.longest),
            host.call.map_or_else(|| "?".into(), |call| call.to_string()),
        ),
        next: "cutrace report -r gaps".into(),
        cost: Cost::Time(host.time),
        times: host.gaps,
        calls: costliest(scope, device),
    };
    long.map(finding).collect()
}

/// The calls for which this device waited longest.
fn costliest(scope: &Scope, device: u32) -> Vec<u64> {
    let (mut idle, mut waited) = (Idle::default(), Tally::default());
    for work in scope.works().filter(|work| work.about.device == device) {
        let host = idle.gap(&work).map_or(0, |gap| parts(gap, &work, None)[0]);
        if let Some(call) = work.call.filter(|_| host > 0) {
            waited.add(call, host);
        }
    }
    waited.costliest()
}
