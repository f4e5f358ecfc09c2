//! Device memory at the cursor: every live allocation, with its address and size.

use super::detail::{Detail, Tone, detail};
use crate::data::lives::{Life, RANGES};
use crate::state::State;
use crate::text::{bytes, counted, moment};

/// Allocations that are listed, the largest first.
const LISTED: usize = 40;
/// Cells of the map.
const CELLS: usize = 48;
/// Holes between allocations from this size on are drawn as one mark, whatever their size.
const HOLE: u64 = 32 << 20;

/// Of the memory row that is selected.
pub(super) fn map(state: &State, at: usize) -> Vec<Detail> {
    let model = &state.opened.model;
    let Some(memory) = model.memory.get(at) else { return Vec::new() };
    let time = state.window.cursor;
    let (when, peak) = memory.peak();
    let (now, moments) = (bytes(memory.bytes_at(time)), [time, when].map(|time| moment(time, state.window.step())));
    let head = format!("{now} at {}; peak {} at {}", moments[0], bytes(peak), moments[1]);
    let mut all = vec![detail("live memory", head, Tone::Title)];
    let Some(lives) = state.opened.lives() else {
        all.push(detail("", "object names are still being read", Tone::Quiet));
        return all;
    };
    let Some(call) = model.last_call(time) else { return all };
    let mut live: Vec<&Life> =
        lives.all.iter().filter(|life| life.kind == RANGES && life.made <= call && call < life.ended).collect();
    live.sort_by_key(|life| life.value);
    let sum = live.iter().fold(0u64, |sum, life| sum.saturating_add(life.len));
    let devices = if model.memory.len() > 1 { ", all pools and devices" } else { "" };
    let text = format!("{}, {}{devices}; by address:", counted(live.len() as u64, "allocation"), bytes(sum));
    all.push(detail("allocations", text, Tone::Plain));
    all.push(detail("map", strip(&live), Tone::Plain));
    live.sort_by_key(|life| (std::cmp::Reverse(life.len), life.made));
    let listed = live.iter().take(LISTED).map(|life| {
        let ended = match life.ended {
            u32::MAX => "never freed".into(),
            call => format!("freed by call {call}"),
        };
        let text = format!("{:>9} at {:#x}, made by call {}, {ended}", bytes(life.len), life.value, life.made);
        detail(lives.title(life), text, Tone::Quiet)
    });
    all.extend(listed);
    if live.len() > LISTED {
        all.push(detail("", format!("and {} smaller ones", live.len() - LISTED), Tone::Quiet));
    }
    all
}

/// Allocations in the order of their addresses, each as wide as it is large; `#` and `=` take turns, `.` is
/// free memory between neighbours, `/` is a hole of 32 MiB and more.
fn strip(live: &[&Life]) -> String {
    let mut pieces: Vec<(char, u64)> = Vec::new();
    let mut end: Option<u64> = None;
    for (index, life) in live.iter().enumerate() {
        match end.map(|end| life.value.saturating_sub(end)) {
            Some(HOLE..) => pieces.push(('/', 0)),
            Some(free @ 1..) => pieces.push(('.', free)),
            _ => {}
        }
        pieces.push((if index % 2 == 0 { '#' } else { '=' }, life.len));
        end = Some(end.unwrap_or(0).max(life.value.saturating_add(life.len)));
    }
    let total: u128 = pieces.iter().map(|(_, size)| u128::from(*size)).sum::<u128>().max(1);
    let (mut out, mut done) = (String::new(), 0u128);
    for (symbol, size) in pieces {
        if symbol == '/' {
            out.push(symbol);
            continue;
        }
        let cell = |at: u128| at * CELLS as u128 / total;
        let from = cell(done);
        done += u128::from(size);
        out.extend(std::iter::repeat_n(symbol, (cell(done) - from) as usize));
    }
    // Many small ones with holes between them are no map any more.
    out.chars().take(2 * CELLS).collect()
}
