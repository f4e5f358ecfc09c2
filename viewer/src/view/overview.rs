//! The whole trace in two rows, and the time axis of the window.

use super::holes;
use super::paint::{draw_background, draw_text, glyph};
use super::theme::Theme;
use crate::data::event::Category;
use crate::state::State;
use crate::state::parts::layout::Area;
use crate::state::parts::overview::Sum;
use crate::state::parts::tab::Tab;
use crate::text::moment;
use ratatui::buffer::Buffer;
use trace::file::record::timed;

pub(super) fn draw(state: &State, theme: &Theme, buffer: &mut Buffer) {
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
    let names = state.layout.names.width;
    draw_text(buffer, 0, area.y, "whole trace", names, theme.quiet());
    let is_whole = state.opened.summary().holes.is_empty();
    let legend = if is_whole { "failed ! sync | load +" } else { "lost x failed ! sync | load +" };
    draw_text(buffer, 0, area.y + 1, legend, names, theme.quiet());
    for (n, Sum { share, failed, waits, loads }) in state.overview.iter().copied().enumerate().take(width as usize) {
        let x = area.x + n as u16;
        let eighths = if share == 0.0 { 0 } else { ((share * 8.0).ceil() as usize).clamp(1, 8) };
        glyph(buffer, x, area.y, theme.level(eighths), theme.ink_of(Category::Launch, false));
        match (failed, loads, waits) {
            (1.., ..) => glyph(buffer, x, area.y + 1, "!", theme.alarm()),
            (_, 1.., _) => glyph(buffer, x, area.y + 1, "+", theme.ink_of(Category::Load, false)),
            (_, _, 1..) => glyph(buffer, x, area.y + 1, "|", theme.ink_of(Category::Synchronize, false)),
            _ => {}
        }
    }
    let matches = state.search.iter().flat_map(|_| state.hits.iter().enumerate().filter(|(_, hit)| **hit));
    for (column, _) in matches.take_while(|(column, _)| *column < width as usize) {
        let sign = theme.glyph("\u{2022}", "*");
        glyph(buffer, area.x + column as u16, area.y + 1, sign, theme.title());
    }
    holes::overview(state, theme, buffer);
    let column = |time: u64| (u128::from(time) * u128::from(width) / u128::from(end)).min(u128::from(width) - 1) as u16;
    for mark in &state.marks {
        glyph(buffer, area.x + column(mark.time.min(end)), area.y + 1, theme.glyph("\u{25bc}", "v"), theme.title());
    }
    let (from, to) = (column(state.window.from), column(state.window.to));
    let shown = Area { x: area.x + from, y: area.y, width: to.saturating_sub(from) + 1, height: 2 };
    if state.window.from > 0 || state.window.to < end {
        draw_background(buffer, shown, theme.chosen());
    }
    if let Some((from, to)) = state.selection().filter(|(from, _)| *from < end) {
        let (from, to) = (column(from), column(to.min(end)));
        draw_background(
            buffer,
            Area { x: area.x + from, y: area.y + 1, width: to - from + 1, height: 1 },
            theme.selected(),
        );
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
            draw_text(buffer, x, area.y, &label, room, theme.quiet());
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
    // What lanes of streams show: with device times, hatched ones show only what was not timed.
    let meaning = match &state.opened.summary().timing {
        Some(timing) if timing.source == timed::RECORDED => "recorded device times",
        Some(_) => "device times of a replay",
        None => "~ submission to known end",
    };
    draw_text(buffer, 0, area.y, meaning, names.saturating_sub(1), theme.quiet());
}
