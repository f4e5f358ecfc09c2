//! The list of a lane's events, and the tables. Only the rows on the screen are made.

use super::paint::{draw_background, draw_text, tint};
use super::theme::Theme;
use crate::data::event::NO_CALL;
use crate::state::State;
use crate::state::parts::layout::Area;
use crate::state::parts::rows;
use crate::state::parts::scope::Basis;
use crate::state::table::Table;
use crate::state::table::columns::BETWEEN;
use crate::text::{counted, cut, duration, grouped, moment, tame};
use ratatui::buffer::Buffer;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

pub(super) fn events(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let area = state.layout.main;
    if area.height == 0 {
        return;
    }
    let row = state.rows.get(state.row);
    let title = row.map_or(String::new(), |row| rows::title(row, &state.opened));
    let head = format!("{:>10} {:>16} {:>9}  {}", "call", "begin", "took", "name");
    draw_text(buffer, area.x, area.y, &head, area.width, theme.title());
    let filter = state.filter.as_ref().map_or(String::new(), |filter| format!(", filter {}", tame(&filter.text)));
    let about = format!("{title}: {}{filter}", counted(state.listed() as u64, "event"));
    if state.layout.axis.height > 0 {
        titled(buffer, state.layout.axis, &about, &position(state.list_row(), state.listed()), theme);
    }
    let Some(at) = state.lane() else {
        draw_text(
            buffer,
            area.x,
            area.y + 1,
            "no events on this row: choose another in the timeline",
            area.width,
            theme.quiet(),
        );
        return;
    };
    let (chosen, top) = (state.list_row(), state.list_row() - state.list_offset());
    scrollbar(theme, buffer, area, top, state.listed());
    let area = Area { width: area.width.saturating_sub(1), ..area };
    let lane = &state.opened.model.lanes[at];
    for line in 0..usize::from(area.height - 1) {
        let Some(index) = state.listed_at(top + line) else { break };
        let (event, y) = (lane.event(index), area.y + 1 + line as u16);
        let x = area.x;
        let left = format!(
            "{:>10} {:>16} {:>9}  ",
            if event.call == NO_CALL { String::new() } else { grouped(event.call.into()) },
            moment(event.begin, 1),
            duration(event.length())
        );
        let used = draw_text(buffer, x, y, &left, area.width, theme.quiet());
        let style = theme.ink_of(event.flags.category(), event.flags.failed());
        let failed = if event.flags.failed() { "! " } else { "" };
        let name = format!("{failed}{}", state.opened.model.name(event.name));
        draw_text(buffer, x + used, y, &name, area.width.saturating_sub(used), style);
        if top + line == chosen {
            draw_background(buffer, Area { y, height: 1, ..area }, theme.chosen());
        }
        if state.search.as_ref().is_some_and(|search| search.hits(event.name)) {
            tint(
                buffer,
                Area { x: x + used, y, width: area.width.saturating_sub(used), height: 1 },
                theme.match_style(),
            );
        }
    }
}

/// `18/62`
fn position(row: usize, rows: usize) -> String {
    if rows == 0 { String::new() } else { format!("{}/{}", grouped(row as u64 + 1), grouped(rows as u64)) }
}

/// What is listed, and which row of it is chosen.
fn titled(buffer: &mut Buffer, area: Area, title: &str, at: &str, theme: &Theme) {
    let room = usize::from(area.x + area.width).saturating_sub(at.width() + 2);
    draw_text(buffer, 0, area.y, title, room as u16, theme.title());
    let width = at.width() as u16;
    draw_text(buffer, (area.x + area.width).saturating_sub(width + 1), area.y, at, width, theme.quiet());
}

/// Below the heading, where the rows that are shown stand among all of them; none if all are shown.
fn scrollbar(theme: &Theme, buffer: &mut Buffer, area: Area, top: usize, rows: usize) {
    let height = usize::from(area.height.saturating_sub(1));
    if rows <= height || height < 3 || area.width == 0 {
        return;
    }
    let size = (height * height / rows).max(1);
    let first = (top * (height - size)).div_ceil((rows - height).max(1));
    for line in 0..height {
        let is_thumb = (first..first + size).contains(&line);
        let symbol = if is_thumb { theme.glyph("\u{2588}", "#") } else { theme.glyph("\u{2502}", "|") };
        let style = if is_thumb { Style::new() } else { theme.quiet() };
        draw_text(buffer, area.x + area.width - 1, area.y + 1 + line as u16, symbol, 1, style);
    }
}

pub(super) fn table(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let (area, table) = (state.layout.main, &state.table);
    let above = state.layout.axis;
    if above.height > 0 {
        let at = position(state.table_row, table.rows.len());
        titled(buffer, above, &state.table_title(table), &at, theme);
    }
    one(theme, buffer, table, area, (state.table_top(), Some(state.table_row)));
}

/// The table below the timeline: its title, and the rows that there is room for.
pub(super) fn draw_lower_table(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let (area, table) = (state.layout.under, &state.under);
    if area.height < 2 {
        return;
    }
    let rule = theme.glyph("\u{2500}", "-").repeat(area.width.into());
    draw_text(buffer, area.x, area.y, &rule, area.width, theme.quiet());
    let title = format!(" {} ", state.table_title(table));
    draw_text(buffer, area.x + 1, area.y, &title, area.width.saturating_sub(2), theme.title());
    let area = Area { y: area.y + 1, height: area.height - 1, ..area };
    one(theme, buffer, table, area, (0, None));
}

/// A table from a row on; and which of them is chosen.
fn one(theme: &Theme, buffer: &mut Buffer, table: &Table, area: Area, (top, chosen): (usize, Option<usize>)) {
    if area.height == 0 {
        return;
    }
    if table.rows.is_empty() {
        let is_whole = table.basis.as_ref().is_none_or(Basis::is_everything);
        let nothing = if is_whole { "none in the trace" } else { "none in this part of the trace" };
        draw_text(buffer, area.x, area.y, nothing, area.width, theme.quiet());
        return;
    }
    let shown = table.cells(top, usize::from(area.height - 1));
    let columns = table.fitting(&shown, usize::from(area.width.saturating_sub(1)));
    let line = |buffer: &mut Buffer, y: u16, texts: &dyn Fn(usize) -> (String, bool), style: Style| {
        let mut x = area.x;
        for (n, width) in &columns {
            let (text, right) = texts(*n);
            let text = cut(&text, *width).to_owned();
            let pad = if right { width.saturating_sub(text.width()) as u16 } else { 0 };
            draw_text(buffer, x.saturating_add(pad), y, &text, area.width.saturating_sub(x + pad), style);
            x = x.saturating_add((width + BETWEEN) as u16);
        }
    };
    let numeric = |n: usize| table.rows.first().and_then(|row| row.cells.get(n)).is_some_and(|value| value.is_number());
    let arrow = if table.reversed { theme.glyph("\u{2191}", "^") } else { theme.glyph("\u{2193}", "v") };
    let head = |n: usize| {
        let sorted = if n == table.sorted { arrow } else { "" };
        (format!("{}{sorted}", table.columns[n]), numeric(n))
    };
    line(buffer, area.y, &head, theme.title());
    scrollbar(theme, buffer, area, top, table.rows.len());
    for (index, row) in shown.iter().enumerate() {
        let y = area.y + 1 + index as u16;
        line(buffer, y, &|n| (row.get(n).cloned().unwrap_or_default(), numeric(n)), Style::new());
        if Some(top + index) == chosen {
            let width = area.width.saturating_sub(1);
            draw_background(buffer, Area { y, height: 1, width, ..area }, theme.chosen());
        }
    }
}
