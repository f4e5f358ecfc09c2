//! The lanes. A cell shows its longest event; one that holds several shows how busy it is. Failures always
//! win.

use super::holes;
use super::paint::{glyph, put, tint};
use super::theme::Theme;
use crate::data::event::{Category, Flags};
use crate::data::lane::{Cell, Lane, Source, views};
use crate::kernel_name::last_part;
use crate::state::State;
use crate::state::layout::Area;
use crate::state::rows::{Row, title};
use crate::text::bytes;
use ratatui::buffer::Buffer;
use ratatui::style::{Modifier, Style};
use std::collections::HashMap;
use unicode_width::UnicodeWidthStr;

pub fn draw(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let layout = &state.layout;
    let edges = state.window.edges();
    let shown = || state.rows.iter().enumerate().skip(state.top).take(layout.lanes.height.into());
    let lanes: Vec<usize> = shown().flat_map(|(_, row)| row.lanes.iter().copied()).collect();
    let views = Views::of(state, &lanes, &edges);
    for (line, (index, row)) in shown().enumerate() {
        let y = layout.lanes.y + line as u16;
        name(state, theme, buffer, row, index == state.row, y);
        if layout.lanes.width == 0 {
            continue;
        }
        match (row.memory, row.lanes.as_slice()) {
            (Some(_), _) => memory_row(state, theme, buffer, row, &edges, y),
            (None, []) => {}
            (None, [only]) => lane_row(state, theme, buffer, *only, &edges, &views, y),
            (None, many) => group_row(state, theme, buffer, many, &edges, &views, y),
        }
        holes::row(state, theme, buffer, &row.lanes, y);
    }
    marks(state, theme, buffer);
}

fn name(state: &State, theme: &Theme, buffer: &mut Buffer, row: &Row, chosen: bool, y: u16) {
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
    put(buffer, area.x, y, &text, area.width.saturating_sub(1), style);
    if chosen {
        let area = Area { y, height: 1, width: area.width.saturating_sub(1), ..area };
        tint(buffer, area, theme.chosen().add_modifier(Modifier::BOLD));
    }
}

/// Where a column of the lanes is on the screen.
fn place(state: &State, column: usize) -> u16 {
    state.layout.lanes.x + column as u16
}

fn lane_row(state: &State, theme: &Theme, buffer: &mut Buffer, at: usize, edges: &[u64], views: &Views, y: u16) {
    let Some(lane) = state.opened.model.lanes.get(at) else { return };
    let Some(passing) = state.filter.as_ref().and_then(|filter| filter.lanes.get(at)) else {
        return cells_row(state, theme, buffer, (at, lane), &views.whole[&at], edges, y, None);
    };
    if !state.hides {
        cells_row(state, theme, buffer, (at, lane), &views.whole[&at], edges, y, Some(true));
    }
    cells_row(state, theme, buffer, (at, &passing.lane), &views.passing[&at], edges, y, Some(false));
}

/// The cells of all lanes that are shown: of all their events, and of those that the filter lets pass.
struct Views {
    whole: HashMap<usize, Vec<Cell>>,
    passing: HashMap<usize, Vec<Cell>>,
}

impl Views {
    fn of(state: &State, lanes: &[usize], edges: &[u64]) -> Views {
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

/// Draws the cells of a lane, then the names of events that have room for theirs. `dimmed`: what the filter
/// leaves out.
#[allow(clippy::too_many_arguments)]
fn cells_row(
    state: &State,
    theme: &Theme,
    buffer: &mut Buffer,
    (at, lane): (usize, &Lane),
    cells: &[Cell],
    edges: &[u64],
    y: u16,
    dimmed: Option<bool>,
) {
    // Work as the host knows it is not known to run all the time that it is outstanding.
    let is_work = matches!(lane.source.inner(), Source::Stream(_));
    let mut column = 0;
    while column < cells.len() {
        let cell = &cells[column];
        let Some(longest) = cell.longest.map(|longest| longest as usize) else {
            column += 1;
            continue;
        };
        let mut flags = Flags(lane.flags[longest]);
        if dimmed == Some(true) {
            flags = Flags::new(Category::Query, false, flags.open());
        }
        let failed = cell.failed > 0 && dimmed != Some(true);
        // A run of cells that one event fills alone is drawn as a bar.
        let mut end = column;
        while cells
            .get(end)
            .is_some_and(|cell| cell.count == 1 && cell.longest == Some(longest as u32) && is_full(cell, edges, end))
        {
            end += 1;
        }
        if end > column {
            bar(state, theme, buffer, lane, longest, (column, end), y, (flags, is_work, dimmed));
            column = end;
            continue;
        }
        let width = edges[column + 1] - edges[column];
        let eighths = ((cell.busy as f64 / width.max(1) as f64 * 8.0).ceil() as usize).clamp(1, 8);
        let symbol = match cell.count {
            // One event that is shorter than its cell.
            1 if eighths <= 2 => theme.glyph("\u{258f}", "|"),
            _ if is_work => shade(theme, eighths),
            _ => theme.level(eighths),
        };
        let style = theme.ink_of(flags.category(), failed);
        glyph(buffer, place(state, column), y, if failed { theme.glyph("\u{2588}", "!") } else { symbol }, style);
        column += 1;
    }
    if dimmed != Some(true) {
        selected_event(state, buffer, at, y);
    }
}

fn is_full(cell: &Cell, edges: &[u64], column: usize) -> bool {
    // Seven eighths: what begins within a cell begins with it, as far as one can see.
    cell.busy.saturating_mul(8) >= (edges[column + 1] - edges[column]).saturating_mul(7)
}

/// Work is not known to run all the time that it is outstanding: it is never drawn solid.
fn shade(theme: &Theme, eighths: usize) -> &'static str {
    match eighths {
        0..3 => theme.glyph("\u{2591}", "."),
        3..6 => theme.glyph("\u{2592}", "~"),
        _ => theme.glyph("\u{2593}", "~"),
    }
}

#[allow(clippy::too_many_arguments)]
fn bar(
    state: &State,
    theme: &Theme,
    buffer: &mut Buffer,
    lane: &Lane,
    index: usize,
    (from, to): (usize, usize),
    y: u16,
    (flags, is_work, dimmed): (Flags, bool, Option<bool>),
) {
    let (x, width) = (place(state, from), (to - from) as u16);
    let event = lane.event(index);
    let model = &state.opened.model;
    let name = match flags.category() {
        Category::Launch if lane.source.is_thread() => {
            // A graph is many kernels: its launch keeps its own name.
            let work = model.find_work(event.call).map(|(lane, work)| (&model.lanes[lane], work));
            let alone = work.filter(|(lane, work)| lane.call.get(work + 1) != Some(&event.call));
            let kernel = alone.map(|(lane, work)| lane.name[work]);
            last_part(model.name(kernel.unwrap_or(event.name)))
        }
        Category::Launch => last_part(model.name(event.name)),
        _ => model.name(event.name),
    };
    let failed = flags.failed();
    let label = match (width, failed) {
        (0..3, true) => "!".to_owned(),
        (0..3, false) => String::new(),
        (_, true) => format!("!{name}"),
        (_, false) if flags.open() => format!("{name} ?"),
        _ => name.to_owned(),
    };
    if is_work || dimmed == Some(true) {
        let symbol = if is_work { theme.glyph("\u{2591}", "~") } else { theme.glyph("\u{2592}", "-") };
        for column in from..to {
            glyph(buffer, place(state, column), y, symbol, theme.ink_of(flags.category(), failed));
        }
        let first = theme.glyph("\u{258f}", "|");
        glyph(buffer, x, y, first, theme.ink_of(flags.category(), failed));
        if dimmed != Some(true) && width > 3 {
            put(buffer, x + 1, y, &label, width - 2, theme.ink_of(flags.category(), failed));
        }
    } else {
        let style = theme.fill(flags.category(), failed);
        tint(buffer, Area { x, y, width, height: 1 }, style);
        for column in from..to {
            glyph(buffer, place(state, column), y, " ", style);
        }
        // Without colours two bars beside each other must not look like one.
        let edge = u16::from(theme.ascii || theme.depth == super::theme::Depth::None);
        put(buffer, x + edge, y, &label, width.saturating_sub(1 + edge).max(1 - edge), style);
        if edge > 0 {
            glyph(buffer, x, y, if failed { "!" } else { "[" }, style);
        }
    }
    if state.search.as_ref().is_some_and(|search| search.hits(event.name)) {
        tint(buffer, Area { x, y, width, height: 1 }, theme.found());
    }
}

/// The event that the user is at, wherever it is drawn.
fn selected_event(state: &State, buffer: &mut Buffer, at: usize, y: u16) {
    let Some((lane, index)) = state.event.filter(|(lane, _)| *lane == at) else { return };
    let Some(lane) = state.opened.model.lanes.get(lane).filter(|lane| index < lane.len()) else { return };
    let (begin, end) = (lane.begin[index], lane.end(index));
    let window = &state.window;
    if end < window.from || begin >= window.to {
        return;
    }
    let first = window.column(begin.max(window.from)).unwrap_or(0);
    let last = window.column(end.saturating_sub(1).clamp(begin.max(window.from), window.to - 1)).unwrap_or(first);
    let area = Area { x: place(state, first as usize), y, width: (last - first + 1) as u16, height: 1 };
    tint(buffer, area, Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED));
}

/// Several lanes folded into one row: how busy they are together.
fn group_row(state: &State, theme: &Theme, buffer: &mut Buffer, lanes: &[usize], edges: &[u64], views: &Views, y: u16) {
    let mut sums = vec![(0u64, 0u64); edges.len().saturating_sub(1)];
    for (at, lane) in lanes.iter().filter_map(|at| Some((at, state.opened.model.lanes.get(*at)?))) {
        if matches!(lane.source, Source::Thread { depth: 1.., .. } | Source::Range { .. }) {
            continue;
        }
        for (sum, cell) in sums.iter_mut().zip(&views.whole[at]) {
            *sum = (sum.0.max(cell.busy), sum.1 + u64::from(cell.failed));
        }
    }
    for (column, (busy, failed)) in sums.into_iter().enumerate().filter(|(_, (busy, failed))| busy + failed > 0) {
        let width = (edges[column + 1] - edges[column]).max(1);
        let eighths = ((busy as f64 / width as f64 * 8.0).ceil() as usize).clamp(1, 8);
        let style = if failed > 0 { theme.alarm() } else { theme.quiet() };
        glyph(buffer, place(state, column), y, theme.level(eighths), style);
    }
}

fn memory_row(state: &State, theme: &Theme, buffer: &mut Buffer, row: &Row, edges: &[u64], y: u16) {
    let Some(memory) = row.memory.and_then(|at| state.opened.model.memory.get(at)) else { return };
    let (when, peak) = memory.peak();
    for (column, pair) in edges.windows(2).enumerate() {
        let most = memory.most(pair[0], pair[1]);
        if most > 0 {
            let eighths = ((most as f64 / peak.max(1) as f64 * 8.0).ceil() as usize).clamp(1, 8);
            let is_peak = (pair[0]..pair[1]).contains(&when);
            let style = if is_peak { theme.title() } else { theme.ink_of(Category::Memory, false) };
            glyph(buffer, place(state, column), y, theme.level(eighths), style);
        }
    }
    let names = state.layout.names;
    let live = bytes(memory.at(state.window.cursor));
    // Behind the row's name, as much as fits; the device's own row is known by its figures.
    let (live, now) = (format!("{live} of {}", bytes(peak)), live);
    let taken = row.level + 3 + title(row, &state.opened).width() as u16;
    let room = names.width.saturating_sub(1);
    let fits = |text: &str| usize::from(taken) + text.len() < room.into();
    if fits(&live) || (memory.of.pool.is_some() && fits(&now)) {
        let text = if fits(&live) { live } else { now };
        put(buffer, room - text.len() as u16, y, &text, text.len() as u16, theme.quiet());
    } else if memory.of.pool.is_none() && usize::from(room) > live.len() + 3 {
        let text = format!("{live:>width$}", width = usize::from(room - 3));
        put(buffer, 3, y, &text, room - 3, theme.quiet());
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
                let free = |cell: &ratatui::buffer::Cell| {
                    cell.symbol() == " " && cell.modifier.is_empty() && cell.bg == ratatui::style::Color::Reset
                };
                if let Some(cell) = buffer.cell_mut((x, y)).filter(|cell| free(cell)) {
                    cell.set_style(theme.selected());
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
