//! The lanes, each as high as there is room for.

use super::cells::{Place, level, place};
use super::connection;
use super::holes;
use super::paint::{draw_background, draw_text, is_free, tint};
use super::theme::Theme;
use crate::data::event::Category;
use crate::data::lane::{Cell, Lane, Source, views};
use crate::state::State;
use crate::state::lines::Placed;
use crate::state::parts::layout::Area;
use crate::state::parts::rows::{Row, title};
use crate::state::parts::scope::EventPlace;
use crate::text::{bytes, cut};
use ratatui::buffer::Buffer;
use ratatui::style::{Modifier, Style};
use std::collections::HashMap;
use unicode_width::UnicodeWidthStr;

pub(super) fn draw(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let edges = state.window.edges();
    let placed = state.placed();
    let lanes: Vec<usize> = placed.iter().flat_map(|placed| state.rows[placed.row].lanes.iter().copied()).collect();
    let views = Views::new(state, &lanes, &edges);
    let ends: Vec<EventPlace> = state.event.into_iter().chain(state.partners()).collect();
    for at in &placed {
        let row = &state.rows[at.row];
        name(state, theme, buffer, row, *at, share(state, row, &views));
        if state.layout.lanes.width == 0 {
            continue;
        }
        match (row.memory, row.lanes.as_slice()) {
            (Some(_), _) => memory_row(state, theme, buffer, row, &edges, *at),
            (None, []) => {}
            (None, [only]) => {
                lane_row(state, theme, buffer, *only, &edges, &views, *at);
                ends.iter().filter(|(lane, _)| lane == only).for_each(|end| {
                    chosen_event(state, theme, buffer, *end, *at);
                });
            }
            (None, many) => group_row(state, theme, buffer, many, &edges, &views, *at),
        }
        (at.y..at.y + at.height).for_each(|y| holes::row(state, theme, buffer, &row.lanes, y));
    }
    connection::draw(state, theme, buffer);
    marks(state, theme, buffer);
}

/// How much of the window a lane has something to do, of a thread or of a stream.
fn share(state: &State, row: &Row, views: &Views) -> Option<String> {
    let [only] = row.lanes.as_slice() else { return None };
    let lane = state.opened.model.lanes.get(*only).filter(|lane| !matches!(lane.source, Source::Range { .. }))?;
    let busy: u64 = views.whole.get(only)?.iter().map(|cell| cell.busy).sum();
    let percent = busy as f64 / state.window.width().max(1) as f64 * 100.0;
    match (busy, percent) {
        (0, _) if lane.is_empty() => None,
        (0, _) => Some("0%".into()),
        (_, ..1.0) => Some("<1%".into()),
        (_, percent) => Some(format!("{:.0}%", percent.min(100.0))),
    }
}

fn name(state: &State, theme: &Theme, buffer: &mut Buffer, row: &Row, at: Placed, share: Option<String>) {
    let area = state.layout.names;
    let folded = match row.folded {
        Some(true) => theme.glyph("\u{25b8} ", "> "),
        Some(false) => theme.glyph("\u{25be} ", "v "),
        None => "  ",
    };
    let pinned = if row.pinned { theme.glyph("\u{2022}", "*") } else { "" };
    let title = title(row, &state.opened);
    let text = format!("{}{folded}{pinned}{title}", " ".repeat(row.level.into()));
    let style = if row.level == 0 { theme.title() } else { Style::new() };
    let room = area.width.saturating_sub(1);
    let taken = share.as_ref().map_or(0, |share| share.len() as u16 + 1);
    draw_text(buffer, area.x, at.y, cut(&text, room.saturating_sub(taken).into()), room, style);
    if let Some(share) = share.filter(|_| room > 12) {
        draw_text(buffer, area.x + room - share.len() as u16, at.y, &share, room, theme.quiet());
    }
    if at.row == state.row {
        let area = Area { y: at.y, height: at.height, width: room, ..area };
        draw_background(buffer, area, theme.chosen().add_modifier(Modifier::BOLD));
    }
}

fn lane_row(state: &State, theme: &Theme, buffer: &mut Buffer, at: usize, edges: &[u64], views: &Views, on: Placed) {
    let Some(lane) = state.opened.model.lanes.get(at) else { return };
    let place = |lane, dimmed| Place { state, theme, lane, edges, y: on.y, height: on.height, dimmed };
    let Some(passing) = state.filter.as_ref().and_then(|filter| filter.lanes.get(at)) else {
        return place(lane, false).draw(buffer, &views.whole[&at]);
    };
    if !state.hides {
        place(lane, true).draw(buffer, &views.whole[&at]);
    }
    place(&passing.lane, false).draw(buffer, &views.passing[&at]);
}

/// The cells of all lanes that are shown: of all their events, and of those that the filter lets pass.
struct Views {
    whole: HashMap<usize, Vec<Cell>>,
    passing: HashMap<usize, Vec<Cell>>,
}

impl Views {
    fn new(state: &State, lanes: &[usize], edges: &[u64]) -> Views {
        let of = |found: Vec<(usize, &Lane)>| {
            let cells =
                views(&found.iter().map(|(_, lane)| *lane).collect::<Vec<_>>(), edges, state.opened.is_at_rest());
            found.into_iter().map(|(at, _)| at).zip(cells).collect()
        };
        let whole = lanes.iter().filter_map(|at| Some((*at, state.opened.model.lanes.get(*at)?)));
        let passing = lanes.iter().filter_map(|at| Some((*at, &state.filter.as_ref()?.lanes.get(*at)?.lane)));
        Views { whole: of(whole.collect()), passing: of(passing.collect()) }
    }
}

/// The event that the user is at, or the other end of its way to the device: an arrow shows where it is, if
/// it is not in the window.
fn chosen_event(state: &State, theme: &Theme, buffer: &mut Buffer, (lane, index): EventPlace, on: Placed) {
    let Some(lane) = state.opened.model.lanes.get(lane).filter(|lane| index < lane.len()) else { return };
    let (begin, end) = (lane.begin[index], lane.end(index));
    let (window, area) = (&state.window, state.layout.lanes);
    if end < window.from {
        draw_text(buffer, area.x, on.y, theme.glyph("\u{25c2}", "<"), 1, theme.title());
        return;
    }
    if begin >= window.to {
        draw_text(buffer, area.x + area.width - 1, on.y, theme.glyph("\u{25b8}", ">"), 1, theme.title());
        return;
    }
    let first = window.column(begin.max(window.from)).unwrap_or(0);
    let last = window.column(end.saturating_sub(1).clamp(begin.max(window.from), window.to - 1)).unwrap_or(first);
    let x = place(state, first as usize);
    let area = Area { x, y: on.y, width: (last - first + 1) as u16, height: on.height };
    tint(buffer, area, Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED));
}

/// Several lanes folded into one row: how busy they are together.
fn group_row(
    state: &State,
    theme: &Theme,
    buffer: &mut Buffer,
    lanes: &[usize],
    edges: &[u64],
    views: &Views,
    on: Placed,
) {
    let mut sums = vec![(0u64, 0u64, 0u64); edges.len().saturating_sub(1)];
    for (at, lane) in lanes.iter().filter_map(|at| Some((at, state.opened.model.lanes.get(*at)?))) {
        if matches!(lane.source, Source::Thread { depth: 1.., .. } | Source::Range { .. }) {
            continue;
        }
        for (sum, cell) in sums.iter_mut().zip(&views.whole[at]) {
            *sum = (sum.0.max(cell.busy), sum.1 + u64::from(cell.failed), sum.2 + cell.count);
        }
    }
    for (column, (busy, failed, count)) in sums.into_iter().enumerate().filter(|(_, (.., count))| *count > 0) {
        let share = busy as f64 / (edges[column + 1] - edges[column]).max(1) as f64;
        let mostly = failed * 2 > count;
        let style = if mostly { theme.alarm() } else { theme.quiet() };
        level(theme, buffer, place(state, column), (on.y, on.height), share, style);
        if failed > 0 && !mostly {
            let (symbol, style) = theme.tick(Category::Other, 0);
            draw_text(buffer, place(state, column), on.y + on.height - 1, symbol, 1, style);
        }
    }
}

fn memory_row(state: &State, theme: &Theme, buffer: &mut Buffer, row: &Row, edges: &[u64], on: Placed) {
    let Some(memory) = row.memory.and_then(|at| state.opened.model.memory.get(at)) else { return };
    let (when, peak) = memory.peak();
    for (column, pair) in edges.windows(2).enumerate() {
        let most = memory.most(pair[0], pair[1]);
        if most > 0 {
            let share = most as f64 / peak.max(1) as f64;
            let is_peak = (pair[0]..pair[1]).contains(&when);
            let style = if is_peak { theme.title() } else { theme.ink_of(Category::Memory, false) };
            level(theme, buffer, place(state, column), (on.y, on.height), share, style);
        }
    }
    let names = state.layout.names;
    let live = bytes(memory.bytes_at(state.window.cursor));
    // Behind the row's name, as much as fits, or below it; the device's own row is known by its figures.
    let (live, now) = (format!("{live} of {}", bytes(peak)), live);
    let taken = row.level + 3 + title(row, &state.opened).width() as u16;
    let room = names.width.saturating_sub(1);
    let fits = |text: &str| usize::from(taken) + text.len() < room.into();
    let right = |buffer: &mut Buffer, text: &str, y: u16| {
        draw_text(buffer, room.saturating_sub(text.len() as u16), y, text, text.len() as u16, theme.quiet());
    };
    if fits(&live) || (memory.of.pool.is_some() && on.height == 1 && fits(&now)) {
        right(buffer, if fits(&live) { &live } else { &now }, on.y);
    } else if on.height > 1 && usize::from(room) > live.len() {
        right(buffer, &live, on.y + 1);
    } else if memory.of.pool.is_none() && usize::from(room) > live.len() + 3 {
        let text = format!("{live:>width$}", width = usize::from(room - 3));
        draw_text(buffer, 3, on.y, &text, room - 3, theme.quiet());
    }
}

/// The selection, the marks and the cursor, over all rows.
fn marks(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let (area, window) = (state.layout.lanes, &state.window);
    if area.width == 0 {
        return;
    }
    if let Some((from, to)) = state.selection().filter(|(from, to)| *to > window.from && *from < window.to) {
        let first = window.column(from.max(window.from)).unwrap_or(0) as u16;
        let last = window.column((to - 1).clamp(window.from, window.to - 1)).unwrap_or(0) as u16;
        let width = last.saturating_sub(first) + 1;
        for y in area.y..area.y + area.height {
            for x in area.x + first..area.x + first + width {
                // Only the background of cells that show nothing: bars keep their colours.
                if is_free(buffer, x, y) {
                    tint(buffer, Area { x, y, width: 1, height: 1 }, theme.selected());
                }
            }
        }
    }
    let lines = state.marks.iter().map(|mark| (mark.time, theme.glyph("\u{2506}", ":")));
    for (time, symbol) in lines.chain([(window.cursor, theme.glyph("\u{2502}", "|"))]) {
        let Some(column) = window.column(time) else { continue };
        for y in area.y..area.y + area.height {
            if let Some(cell) = buffer.cell_mut((area.x + column as u16, y)).filter(|cell| cell.symbol() == " ")
                && cell.bg == ratatui::style::Color::Reset
                && !cell.modifier.contains(Modifier::REVERSED)
            {
                cell.set_symbol(symbol).set_style(theme.quiet());
            }
        }
    }
}
