//! Lost calls, drawn as crosses over the time of which nothing is known.

use super::paint::draw_text;
use super::theme::Theme;
use crate::data::lane::Source;
use crate::state::State;
use crate::state::parts::window::Window;
use ratatui::buffer::Buffer;
use std::ops::Range;

/// The columns of a piece of time, at least one; none if it is not shown.
fn columns(window: &Window, begin: u64, end: u64) -> Option<Range<u16>> {
    if end < window.from || begin >= window.to {
        return None;
    }
    let first = window.column(begin.max(window.from)).unwrap_or(0) as u16;
    let last = window.column(end.clamp(window.from + 1, window.to) - 1).unwrap_or(0) as u16;
    Some(first..last.max(first) + 1)
}

/// Over the cells of the lanes in one row.
pub(super) fn row(state: &State, theme: &Theme, buffer: &mut Buffer, lanes: &[usize], y: u16) {
    let area = state.layout.lanes;
    let threads = lanes.iter().filter_map(|at| match state.opened.model.lanes.get(*at)?.source {
        Source::Thread { thread, depth: 0 } => Some(thread),
        _ => None,
    });
    for thread in threads {
        let own = state.opened.summary().holes.iter().filter(|hole| hole.thread == thread);
        for (hole, columns) in own.filter_map(|hole| Some((hole, columns(&state.window, hole.begin, hole.end)?))) {
            let width = columns.end - columns.start;
            let crosses = theme.glyph("\u{2573}", "x").repeat(width.into());
            draw_text(buffer, area.x + columns.start, y, &crosses, width, theme.alarm());
            let label = format!(" {} ", hole.title());
            if usize::from(width) > label.len() + 2 {
                draw_text(buffer, area.x + columns.start + 1, y, &label, width - 2, theme.alarm());
            }
        }
    }
}

/// In the second row of the overview.
pub(super) fn overview(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let area = state.layout.overview;
    let whole = Window::whole(state.window.end, area.width.into());
    let holes = state.opened.summary().holes.iter();
    for columns in holes.filter_map(|hole| columns(&whole, hole.begin, hole.end)) {
        let crosses = "x".repeat(columns.len());
        draw_text(buffer, area.x + columns.start, area.y + 1, &crosses, columns.len() as u16, theme.alarm());
    }
}
