//! Sums of the events of lanes by name, and sums of a group of lanes.

use super::detail::{Detail, Tone, detail};
use crate::data::lane::{Lane, Source};
use crate::state::State;
use crate::state::parts::rows;
use crate::state::parts::scope::{EventPlace, Scope};
use crate::state::parts::tab::Tab;
use crate::state::table::busy;
use crate::state::table::piece::Piece;
use crate::state::table::sums::Sum;
use crate::text::{counted, cut, duration, grouped, percent};
use analysis::text::kernel_name::last_part;

/// Names that are listed, those that took the most.
const NAMED: usize = 12;
/// Cells of a name: each has one line.
const LONGEST: usize = 48;
/// More events are not added up for a frame.
const ADDED: u64 = 200_000;

/// The events of these lanes in a piece of time, by name.
pub(super) fn of_lanes(state: &State, lanes: &[usize], from: u64, to: u64) -> Vec<Detail> {
    let all = lanes.iter().filter_map(|at| state.opened.model.lanes.get(*at));
    if all.map(|lane| lane.cell(from, to).count).sum::<u64>() > ADDED {
        return vec![detail("by name", "too many events to sum per frame; see the tables", Tone::Quiet)];
    }
    let sums = Piece::new(&state.opened, state.filter.as_ref(), Scope::Selection(from, to)).of_lanes(lanes);
    listed(state, &sums)
}

/// The kernels that the calls of a range launched, by name, with the device's times if there are some.
pub(super) fn of_range(state: &State, at: EventPlace, from: u64, to: u64) -> Vec<Detail> {
    let threads = state.opened.model.lanes.iter().filter(|lane| lane.source.is_thread());
    if threads.map(|lane| lane.cell(from, to).count).sum::<u64>() > ADDED {
        return Vec::new();
    }
    let sums = Piece::new(&state.opened, state.filter.as_ref(), Scope::Range(at, from, to)).sums(Tab::Kernels);
    let mut all = listed(state, &sums);
    if let Some(first) = all.first_mut() {
        let times = if state.opened.summary().timing.is_some() { "device times" } else { "host times" };
        first.text = format!("{}, by name ({times})", counted(sums.iter().map(|sum| sum.row.count).sum(), "kernel"));
    }
    all
}

fn listed(state: &State, sums: &[Sum]) -> Vec<Detail> {
    if sums.is_empty() {
        return Vec::new();
    }
    let model = &state.opened.model;
    let total: u64 = sums.iter().map(|sum| sum.row.total).sum();
    let heading = format!("{}, {}", counted(sums.len() as u64, "name"), duration(total));
    let mut all = vec![detail("by name", heading, Tone::Plain)];
    all.extend(sums.iter().take(NAMED).map(|Sum { row, .. }| {
        let failed = if row.failed > 0 { format!(", {} failed", grouped(row.failed)) } else { String::new() };
        let (count, name) = (grouped(row.count), cut(last_part(model.name(row.name)), LONGEST));
        let text = format!("{:>8}  {count} x {name}{failed}", duration(row.total));
        let tone = if row.failed > 0 { Tone::Bad } else { Tone::Plain };
        detail(format!("{:>8}", percent(row.total, total)), text, tone)
    }));
    if sums.len() > NAMED {
        let rest = (sums.len() - NAMED) as u64;
        all.push(detail("", format!("and {} that took less", counted(rest, "other name")), Tone::Quiet));
    }
    all
}

/// What the lanes of a group hold, in the selection or else in the window.
pub(super) fn group(state: &State, row: usize) -> Vec<Detail> {
    let Some(shown) = state.rows.get(row) else { return Vec::new() };
    let model = &state.opened.model;
    let counts = |lane: &Lane| match lane.source.inner() {
        Source::Thread { depth, .. } => *depth == 0,
        Source::Range { .. } => false,
        _ => true,
    };
    let lanes: Vec<usize> = state.lanes_of(row).into_iter().filter(|at| counts(&model.lanes[*at])).collect();
    let (scope, from, to) = match state.selection() {
        Some((from, to)) => (Scope::Selection(from, to), from, to),
        None => (Scope::Window(state.window.from, state.window.to), state.window.from, state.window.to),
    };
    let of = if state.selection().is_some() { "selected" } else { "in the window" };
    let heading = format!("{}: {} {of}", rows::title(shown, &state.opened), duration(to - from));
    let mut all = vec![detail("all rows", heading, Tone::Title)];
    let cells: Vec<_> = lanes.iter().map(|at| model.lanes[*at].cell(from, to)).collect();
    let (count, busy) = (cells.iter().map(|cell| cell.count).sum(), cells.iter().map(|cell| cell.busy).sum());
    let failed: u64 = cells.iter().map(|cell| u64::from(cell.failed)).sum();
    let failures = if failed > 0 { format!(", {} failed", grouped(failed)) } else { String::new() };
    let tone = if failed > 0 { Tone::Bad } else { Tone::Plain };
    let events = format!("{}{failures} on {}", counted(count, "event"), counted(lanes.len() as u64, "row"));
    all.push(detail("events", events, tone));
    all.push(detail("total", duration(busy), Tone::Plain));
    if let rows::Id::Device(device) = shown.id {
        let own = format!("device {device}: ");
        let lines = busy::lines(&state.opened, scope, busy::FRAME);
        all.extend(lines.iter().filter_map(|line| Some(detail("device", line.strip_prefix(&own)?, Tone::Plain))));
    }
    all.extend(of_lanes(state, &lanes, from, to));
    all
}
