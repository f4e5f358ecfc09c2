//! The events of the lane in a selected piece of time: in one line for the status, and in full.

use super::detail::{Detail, Tone, detail};
use crate::details::name_sums;
use crate::state::State;
use crate::state::parts::rows;
use crate::state::parts::scope::Scope;
use crate::state::table::busy;
use crate::text::{counted, duration, moment, percent};

/// In one line.
pub fn selection(state: &State) -> Option<String> {
    let (from, to) = state.selection()?;
    let width = duration(to - from);
    let Some(all) = state.statistics(from, to) else { return Some(format!("{width} selected")) };
    let events = counted(all.count, "event");
    Some(format!("{width} selected: {events}, {} busy ({})", duration(all.busy), percent(all.busy, all.width)))
}

pub(super) fn panel(state: &State) -> Option<Vec<Detail>> {
    let (from, to) = state.selection()?;
    let step = state.window.step().min(1_000);
    let plain = |label: &str, text: String| detail(label, text, Tone::Plain);
    let row = state.rows.get(state.row).map_or(String::new(), |row| rows::title(row, &state.opened));
    let mut lines = vec![
        detail("selected", format!("{} of {row}", duration(to - from)), Tone::Title),
        plain("from, to", format!("{} to {}", moment(from, step), moment(to, step))),
    ];
    let Some(all) = state.statistics(from, to) else { return Some(lines) };
    let failed = if all.failed > 0 { format!(", {} failed", all.failed) } else { String::new() };
    let tone = if all.failed > 0 { Tone::Bad } else { Tone::Plain };
    lines.push(detail("events", format!("{}{failed}", counted(all.count, "event")), tone));
    lines.push(plain("total, busy", format!("{}, {}", duration(all.busy), percent(all.busy, all.width))));
    let within = if all.own != all.busy { ", without nested events" } else { "" };
    lines.push(plain("self", format!("{}{within}", duration(all.own))));
    let gaps = all.width.saturating_sub(all.busy);
    lines.push(plain("gaps", format!("{}, {}", duration(gaps), percent(gaps, all.width))));
    match all.lengths {
        Some(lengths) => {
            let [least, median, p99, most] = lengths.map(duration);
            lines.push(plain("lengths", format!("min {least}, median {median}, p99 {p99}, max {most}")));
        }
        None if all.count > 0 => lines.push(detail("lengths", "too many events to sort per frame", Tone::Quiet)),
        None => {}
    }
    match state.scope() {
        Scope::Range(at, from, to) => {
            let busy = busy::lines(&state.opened, state.scope(), busy::FRAME);
            lines.extend(busy.into_iter().map(|line| plain("", line)));
            lines.extend(name_sums::of_range(state, at, from, to));
        }
        _ => lines.extend(name_sums::of_lanes(state, &state.lanes_of(state.row), from, to)),
    }
    Some(lines)
}
