//! Drawing a [`State`]: nothing here changes it, and every size is drawn.

mod lists;
mod overlay;
mod overview;
pub mod theme;
mod timeline;

use crate::details::{self, Tone};
use crate::state::State;
use crate::state::layout::Area;
use crate::state::table::Tab;
use crate::text::{counted, cut, duration, grouped, moment, tame};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use theme::Theme;
use unicode_width::UnicodeWidthStr;

/// Draws everything into the buffer, which has the state's size.
pub fn draw(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let layout = &state.layout;
    title(state, theme, buffer);
    overview::draw(state, theme, buffer);
    match state.tab {
        Tab::Timeline => timeline::draw(state, theme, buffer),
        Tab::Events => lists::events(state, theme, buffer),
        _ => lists::table(state, theme, buffer),
    }
    if layout.details.height > 0 {
        panel(state, theme, buffer);
    }
    status(state, theme, buffer);
    overlay::draw(state, theme, buffer);
}

/// Text at a place, cut to so many cells and to the buffer; how many cells it took. The text must be tame.
fn put(buffer: &mut Buffer, x: u16, y: u16, text: &str, cells: u16, style: Style) -> u16 {
    let area = *buffer.area();
    if x >= area.right() || y >= area.bottom() {
        return 0;
    }
    let text = cut(text, usize::from(cells.min(area.right() - x)));
    buffer.set_stringn(x, y, text, usize::from(cells), style);
    text.width() as u16
}

/// One glyph at a place.
fn glyph(buffer: &mut Buffer, x: u16, y: u16, symbol: &str, style: Style) {
    if let Some(cell) = buffer.cell_mut((x, y)) {
        cell.set_symbol(symbol).set_style(style);
    }
}

/// Gives a piece of a row a style; what stands there stays.
fn tint(buffer: &mut Buffer, area: Area, style: Style) {
    let area = Rect::new(area.x, area.y, area.width, area.height).intersection(*buffer.area());
    buffer.set_style(area, style);
}

fn title(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let area = state.layout.title;
    if area.height == 0 {
        return;
    }
    let mut x = 0;
    for (index, tab) in Tab::ALL.into_iter().enumerate() {
        let style = if tab == state.tab { theme.chosen().patch(theme.title()) } else { theme.quiet() };
        let label = format!(" {} {} ", index + 1, tab.title());
        if x + label.len() as u16 > area.width {
            break;
        }
        x += put(buffer, x, area.y, &label, area.width - x, style);
    }
    let summary = state.opened.summary();
    let name = state.opened.path.file_name().map_or(String::new(), |name| tame(&name.to_string_lossy()));
    let calls = format!("{}, {} ", counted(summary.calls, "call"), duration(summary.end));
    let room = usize::from(area.width.saturating_sub(x));
    // As much as fits.
    let abouts = [format!(" {name}: {calls}"), format!(" {calls}"), format!(" {} ", duration(summary.end))];
    if let Some(about) = abouts.iter().find(|about| about.width() <= room) {
        let width = about.width() as u16;
        put(buffer, area.width - width, area.y, about, width, theme.quiet());
    }
}

fn status(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let area = state.layout.status;
    if area.height == 0 {
        return;
    }
    if let Some(prompt) = &state.prompt {
        let used = put(buffer, 0, area.y, prompt.ask.title(), area.width, theme.title());
        let text = tame(&prompt.text);
        // The end is where one types.
        let room = usize::from(area.width.saturating_sub(used + 1));
        let skip = text.char_indices().map(|(at, _)| at).find(|at| text[*at..].width() <= room).unwrap_or(text.len());
        let typed = put(buffer, used, area.y, &text[skip..], area.width.saturating_sub(used), Style::new());
        let cursor = used + typed;
        put(buffer, cursor, area.y, theme.glyph("\u{2588}", "_"), 1, Style::new());
        let message = format!("  {}", tame(&state.message));
        put(buffer, cursor + 1, area.y, &message, area.width.saturating_sub(cursor + 1), theme.quiet());
        return;
    }
    let left = if !state.message.is_empty() {
        tame(&state.message)
    } else if let Some(selection) = details::selection(state) {
        selection
    } else {
        let mut parts = vec![moment(state.window.cursor, state.window.step())];
        parts.push(format!("{} shown", duration(state.window.width())));
        if let Some(search) = &state.search {
            parts.push(format!("/{} {}", tame(&search.text), grouped(search.count)));
        }
        if let Some(filter) = &state.filter {
            parts.push(format!("filter {} ({})", tame(&filter.text), grouped(filter.count)));
        }
        parts.join("  ")
    };
    let used = put(buffer, 0, area.y, &left, area.width, Style::new());
    let room = area.width.saturating_sub(used + 2);
    let help = format!("{}  ? help", state.tab.command());
    let right = match state.opened.label() {
        Some(label) => tame(&label),
        None if help.width() <= room.into() => help,
        None => "? help".into(),
    };
    let width = (right.width() as u16).min(room);
    let style = if state.opened.trace.damage.is_empty() { theme.quiet() } else { theme.alarm() };
    put(buffer, area.width - width, area.y, &right, width, style);
}

/// What is known of the current event, in one or two columns.
fn panel(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let area = state.layout.details;
    let rule = theme.glyph("\u{2500}", "-").repeat(area.width.into());
    put(buffer, area.x, area.y, &rule, area.width, theme.quiet());
    let details = match state.tab {
        Tab::Findings => finding(state),
        Tab::Timeline | Tab::Events => details::of(state),
        _ => vec![],
    };
    let height = usize::from(area.height.saturating_sub(1));
    if details.is_empty() {
        let hint = match state.tab {
            Tab::Timeline | Tab::Events => "no event under the cursor: . and , go to the next and previous one",
            _ if state.table.note.is_empty() => "enter goes to the slowest instance; o sorts by the next column",
            _ => state.table.note,
        };
        put(buffer, area.x, area.y + 1, hint, area.width, theme.quiet());
        return;
    }
    let columns = if area.width >= 100 && details.len() > height { 2 } else { 1 };
    let width = area.width / columns;
    let left = details.len() > height * usize::from(columns);
    for (index, line) in details.iter().enumerate().take(height * usize::from(columns)) {
        let (x, y) = ((index / height.max(1)) as u16 * width, area.y + 1 + (index % height.max(1)) as u16);
        let is_last = left && index + 1 == height * usize::from(columns);
        if is_last {
            let more = format!("and {} more: a higher terminal shows them", details.len() - index);
            put(buffer, x, y, &more, width, theme.quiet());
            break;
        }
        let style = match line.tone {
            Tone::Title => theme.title(),
            Tone::Plain => Style::new(),
            Tone::Bad => theme.alarm(),
            Tone::Quiet => theme.quiet(),
        };
        let label = put(buffer, x, y, &line.label, width.saturating_sub(1).min(18), theme.quiet());
        let indent = label.max(14) + 1;
        put(buffer, x + indent, y, &line.text, width.saturating_sub(indent + 1), style);
    }
}

/// A finding in words, and where it shows.
fn finding(state: &State) -> Vec<details::Detail> {
    let detail = |label: &str, text: String, tone| details::Detail { label: label.into(), text, tone };
    // The table may be sorted in another order: the title tells which it is.
    let title = state.table.rows.get(state.table_row).and_then(|row| row.get(2)).map(|value| value.text());
    let summary = state.opened.summary();
    let Some(found) = summary.findings.iter().find(|finding| Some(&finding.title) == title.as_ref()) else {
        return vec![detail("", "nothing was found that is worth looking at".into(), Tone::Quiet)];
    };
    let calls: Vec<String> = found.evidence.iter().take(24).map(u32::to_string).collect();
    vec![
        detail("", tame(&found.title), Tone::Title),
        detail("what it means", found.why.clone(), Tone::Plain),
        detail("calls", calls.join(" "), Tone::Plain),
        detail("", "enter goes to the first of them".into(), Tone::Quiet),
    ]
}
