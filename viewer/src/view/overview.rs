//! The whole trace in two rows, and the time axis of the window.

use super::theme::Theme;
use super::{glyph, put, tint};
use crate::data::event::Category;
use crate::data::lane::Source;
use crate::state::State;
use crate::state::layout::Area;
use crate::state::table::Tab;
use crate::text::moment;
use ratatui::buffer::Buffer;

pub fn draw(state: &State, theme: &Theme, buffer: &mut Buffer) {
    if state.layout.overview.height >= 2 {
        whole(state, theme, buffer);
    }
    if state.layout.axis.height > 0 && state.tab == Tab::Timeline {
        axis(state, theme, buffer);
    }
}

/// How busy the threads were; below it failures, waits and loads.
fn whole(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let area = state.layout.overview;
    let width = u64::from(area.width);
    if width == 0 {
        return;
    }
    let end = state.window.end;
    let edges: Vec<u64> = (0..=width).map(|n| (u128::from(end) * u128::from(n) / u128::from(width)) as u64).collect();
    let (mut sums, mut cells) = (vec![(0u64, 0u64, 0u64, 0u64); width as usize], Vec::new());
    let lanes: Vec<_> =
        state.opened.model.lanes.iter().filter(|l| matches!(l.source, Source::Thread { depth: 0, .. })).collect();
    for lane in &lanes {
        lane.view(&edges, &mut cells);
        for (sum, cell) in sums.iter_mut().zip(&cells) {
            sum.0 += cell.busy;
            sum.1 += u64::from(cell.failed);
            sum.2 += u64::from(cell.synchronisations);
            sum.3 += u64::from(cell.loads);
        }
    }
    let names = state.layout.names.width;
    put(buffer, 0, area.y, "whole trace", names, theme.quiet());
    put(buffer, 0, area.y + 1, "failed ! sync | load +", names, theme.quiet());
    let capacity = |n: usize| (edges[n + 1] - edges[n]).saturating_mul(lanes.len() as u64).max(1);
    for (n, (busy, failed, waits, loads)) in sums.into_iter().enumerate() {
        let x = area.x + n as u16;
        let share = busy as f64 / capacity(n) as f64;
        let eighths = if busy == 0 { 0 } else { ((share * 8.0).ceil() as usize).clamp(1, 8) };
        glyph(buffer, x, area.y, theme.level(eighths), theme.ink_of(Category::Launch, false));
        match (failed, loads, waits) {
            (1.., ..) => glyph(buffer, x, area.y + 1, "!", theme.alarm()),
            (_, 1.., _) => glyph(buffer, x, area.y + 1, "+", theme.ink_of(Category::Load, false)),
            (_, _, 1..) => glyph(buffer, x, area.y + 1, "|", theme.ink_of(Category::Synchronize, false)),
            _ => {}
        }
    }
    let column = |time: u64| (u128::from(time) * u128::from(width) / u128::from(end)).min(u128::from(width) - 1) as u16;
    for mark in &state.marks {
        glyph(buffer, area.x + column(mark.time.min(end)), area.y + 1, theme.glyph("\u{25bc}", "v"), theme.title());
    }
    let (from, to) = (column(state.window.from), column(state.window.to));
    let shown = Area { x: area.x + from, y: area.y, width: to.saturating_sub(from) + 1, height: 2 };
    if state.window.from > 0 || state.window.to < end {
        tint(buffer, shown, theme.chosen());
    }
}

/// Moments at round numbers.
fn axis(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let (area, window) = (state.layout.axis, &state.window);
    let least = window.step().saturating_mul(16);
    let mut step = 1u64;
    while step < least {
        let rounder = [2, 5, 10].into_iter().map(|times| step.saturating_mul(times)).find(|step| *step >= least);
        match rounder {
            Some(found) => step = found,
            None => step = step.saturating_mul(10),
        }
        if step == u64::MAX {
            break;
        }
    }
    let mut time = window.from.div_ceil(step).saturating_mul(step);
    while let Some(column) = window.column(time) {
        let x = area.x + column as u16;
        let label = format!("{}{}", theme.glyph("\u{2502}", "|"), moment(time, step));
        let room = area.width.saturating_sub(column as u16);
        if label.chars().count() <= usize::from(room) {
            put(buffer, x, area.y, &label, room, theme.quiet());
        }
        time = match time.checked_add(step) {
            Some(next) => next,
            None => break,
        };
    }
    for mark in &state.marks {
        if let Some(column) = window.column(mark.time) {
            glyph(buffer, area.x + column as u16, area.y, theme.glyph("\u{25bc}", "v"), theme.title());
        }
    }
    if let Some(column) = window.column(window.cursor) {
        glyph(buffer, area.x + column as u16, area.y, theme.glyph("\u{25be}", "V"), theme.title());
    }
    let names = state.layout.names.width;
    put(buffer, 0, area.y, "~ submission to known end", names.saturating_sub(1), theme.quiet());
}
