//! A call's device work: its times as measured by a replay, or else from its submission to its known end; and
//! the contents of an annotated range.

use super::detail::{Detail, Tone, detail};
use crate::data::event::Event;
use crate::data::lane::{Cell, Lane, Source};
use crate::state::State;
use crate::text::{bytes, counted, duration, grouped, percent};
use analysis::text::kernel_name::last_part;
use trace::file::record::{Timed, timed};
use trace::read::device_times::{known_number, memory_kind};

/// More pieces of work are not added up for a frame.
const SUMMED: usize = 1 << 20;

/// When submitted work ran, as far as the host knows.
pub(super) fn outstanding(state: &State, lane: &Lane, index: usize, returned: u64) -> String {
    let name = last_part(state.opened.model.name(lane.name[index]));
    match lane.done.get(index) {
        Some(&done) if done != u64::MAX => {
            let after = duration(done.saturating_sub(returned));
            format!("{name}, completed at most {after} after the return")
        }
        _ => format!("{name}, not known to have completed"),
    }
}

/// What a call put on devices.
pub(super) fn of_call(state: &State, call: u32, returned: u64) -> Vec<Detail> {
    let model = &state.opened.model;
    let lanes = model.lanes.iter().filter(|lane| lane.source.is_work());
    let mut found = lanes.filter_map(|lane| Some((lane, lane.of_call(call)?)));
    let Some((lane, first)) = found.next() else { return Vec::new() };
    if !matches!(lane.source, Source::Device { .. }) {
        return vec![detail("work", outstanding(state, lane, first, returned), Tone::Plain)];
    }
    let all: Vec<(&Lane, usize)> = std::iter::once((lane, first))
        .chain(found)
        .flat_map(|(lane, first)| {
            let those = (first..lane.len()).take_while(move |index| lane.call[*index] == call);
            those.map(move |index| (lane, index))
        })
        .collect();
    match all.as_slice() {
        [(lane, index)] => {
            let mut lines = vec![detail("work", last_part(model.name(lane.name[*index])), Tone::Plain)];
            lines.extend(measured(state, lane, *index));
            lines
        }
        many => {
            let sum: u64 = many.iter().map(|(lane, index)| lane.length(*index)).sum();
            let begin = many.iter().map(|(lane, index)| lane.begin[*index]).min().unwrap_or(0);
            let end = many.iter().map(|(lane, index)| lane.end(*index)).max().unwrap_or(0);
            let pieces = counted(many.len() as u64, "operation");
            let text = format!("{pieces}, {} in total, span {}", duration(sum), duration(end - begin));
            vec![detail("work", text, Tone::Plain)]
        }
    }
}

/// The times of one piece of work, and what its source says of it.
pub(super) fn measured(state: &State, lane: &Lane, index: usize) -> Vec<Detail> {
    let about = lane.record.get(index).and_then(|at| state.opened.trace.timed_at(*at));
    let Some(about) = about else {
        return vec![detail("", "cannot read the record of these times", Tone::Bad)];
    };
    let trace = &state.opened.trace;
    let call = lane.call.get(index).and_then(|call| state.opened.call(*call));
    let about = call.map_or(about, |call| trace.of_call(about, &call));
    let mut all = vec![detail("API queue exec", split(&about), Tone::Plain)];
    let by = match about.source {
        timed::EVENTS => "by a replay, with events; may include earlier work on the device",
        timed::RECORDED => "while recording, with CUPTI",
        _ => "by a replay, with CUPTI",
    };
    all.push(detail("measured", by, Tone::Quiet));
    let shape = |[x, y, z]: [u32; 3]| known_number(x).map(|x| format!("{x} x {y} x {z}"));
    if let (Some(grid), Some(block)) = (shape(about.grid), shape(about.block)) {
        let threads: u64 = about.grid.iter().chain(&about.block).map(|n| u64::from(*n)).product();
        let text = format!("{grid} blocks of {block} threads: {} threads", grouped(threads));
        all.push(detail("ran as", text, Tone::Plain));
    }
    let figures = [
        known_number(about.registers).map(|n| format!("{n} registers/thread")),
        known_number(about.static_shared).map(|n| format!("{} static", bytes(n.into()))),
        known_number(about.dynamic_shared).map(|n| format!("{} dynamic shared", bytes(n.into()))),
        known_number(about.local).filter(|n| *n > 0).map(|n| format!("{} local/thread", bytes(n.into()))),
        about.occupancy().map(|share| format!("occupancy {share:.1}%")),
    ];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    if about.what == timed::KERNEL && !figures.is_empty() {
        all.push(detail("resources", figures.join(", "), Tone::Plain));
    }
    if matches!(about.what, timed::COPY | timed::FILL) {
        let ns = (about.end - about.start).max(1) as f64;
        let way: Vec<&str> = [about.from, about.to].into_iter().map(memory_kind).filter(|k| !k.is_empty()).collect();
        let text = format!("{}, {:.2} GB/s, {}", bytes(about.bytes), about.bytes as f64 / ns, way.join(" to "));
        all.push(detail("bytes", text.trim_end_matches([',', ' ']), Tone::Plain));
    }
    if about.node != 0 {
        all.push(detail("graph node", about.node.to_string(), Tone::Quiet));
    }
    all
}

/// How long the call took, how long the work waited after it had returned, and how long it ran. Work may
/// begin before its call returns: it has not waited then.
fn split(about: &Timed) -> String {
    let length = |from: i64, to: i64| duration(to.saturating_sub(from).max(0) as u64);
    let queued = match about.start.saturating_sub(about.returned) {
        ..=0 => "began before the call returned".to_owned(),
        ns => format!("{} queued", duration(ns as u64)),
    };
    let (api, ran) = (length(about.submitted, about.returned), length(about.start, about.end));
    format!("{api} in the call, {queued}, {ran} executing")
}

/// What a range holds: calls of its thread, or of all if any may end it, and what they gave to devices.
pub(super) fn range_contents(state: &State, thread: Option<u32>, event: &Event) -> Vec<Detail> {
    let model = &state.opened.model;
    let own = |lane: &&Lane| match lane.source {
        Source::Thread { thread: of, depth: 0 } => thread.is_none_or(|thread| thread == of),
        _ => false,
    };
    let threads: Vec<&Lane> = model.lanes.iter().filter(own).collect();
    let cells: Vec<Cell> = threads.iter().map(|lane| lane.cell(event.begin, event.end)).collect();
    let (count, busy) = (cells.iter().map(|cell| cell.count).sum(), cells.iter().map(|cell| cell.busy).sum());
    let failed: u64 = cells.iter().map(|cell| u64::from(cell.failed)).sum();
    let mut text = format!("{}, {} in the driver", counted(count, "call"), duration(busy));
    if threads.len() == 1 {
        text.push_str(&format!(" ({})", percent(busy, event.length())));
    }
    if failed > 0 {
        text.push_str(&format!(", {failed} failed"));
    }
    let mut all = vec![detail("host", text, Tone::Plain)];
    if model.summary.timing.is_none() {
        return all;
    }
    let (mut works, mut sum, mut begin, mut until) = (0u64, 0u64, u64::MAX, 0u64);
    for calls in threads {
        let (first, end) = (calls.first_at(event.begin), calls.first_at(event.end));
        if first >= end {
            continue;
        }
        let (from, to) = (calls.call[first], calls.call[end - 1]);
        for lane in model.lanes.iter().filter(|lane| matches!(lane.source, Source::Device { .. })) {
            let start = lane.call.partition_point(|call| *call < from);
            let stop = lane.call.partition_point(|call| *call <= to);
            if stop - start > SUMMED {
                all.push(detail("device", "too much work to sum here", Tone::Quiet));
                return all;
            }
            for index in (start..stop).filter(|index| calls.of_call(lane.call[*index]).is_some()) {
                (works, sum) = (works + 1, sum + lane.length(index));
                (begin, until) = (begin.min(lane.begin[index]), until.max(lane.end(index)));
            }
        }
    }
    if works > 0 {
        let pieces = counted(works, "operation");
        let span = duration(until - begin);
        let text = format!("{pieces}, {} in total, span {span}", duration(sum));
        all.push(detail("device", text, Tone::Plain));
    }
    all
}
