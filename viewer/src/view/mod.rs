//! Drawing of a [`State`]: nothing here changes it, and every size can be drawn.
//!
//! Imports `details/`, `state/` and the layers below.

mod cells;
mod connection;
mod finding;
mod holes;
mod legend;
mod lists;
mod overlay;
mod overview;
mod paint;
pub mod theme;
mod timeline;

use crate::details::{self, Tone};
use crate::state::State;
use crate::state::parts::action::Action;
use crate::state::parts::layout::Area;
use crate::state::parts::tab::Tab;
use crate::text::{counted, cut, duration, grouped, lines, moment, tame};
use paint::{draw_text, tint};
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
        Tab::Timeline => {
            timeline::draw(state, theme, buffer);
            lists::draw_lower_table(state, theme, buffer);
        }
        Tab::Events => lists::events(state, theme, buffer),
        _ => lists::table(state, theme, buffer),
    }
    if layout.details.height > 0 {
        panel(state, theme, buffer);
    }
    status(state, theme, buffer);
    keys(state, theme, buffer);
    overlay::draw(state, theme, buffer);
}

fn title(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let area = state.layout.title;
    if area.height == 0 {
        return;
    }
    let mut x = 0;
    for (tab, label) in state.tabs() {
        let style = if tab == state.tab { theme.chosen().patch(theme.title()) } else { theme.quiet() };
        x += draw_text(buffer, x, area.y, &label, area.width - x, style);
    }
    let summary = state.opened.summary();
    let name = state.opened.path.file_name().map_or(String::new(), |name| tame(&name.to_string_lossy()));
    let calls = format!("{}, {} ", counted(state.opened.calls_made(), "call"), duration(summary.end));
    let room = usize::from(area.width.saturating_sub(x));
    // As much as fits; of a long name its end.
    let short =
        format!(" ..{}: {calls}", name.chars().skip(name.chars().count().saturating_sub(8)).collect::<String>());
    let abouts = [format!(" {name}: {calls}"), short, format!(" {calls}"), format!(" {} ", duration(summary.end))];
    if let Some(about) = abouts.iter().find(|about| about.width() <= room) {
        let width = about.width() as u16;
        draw_text(buffer, area.width - width, area.y, about, width, theme.quiet());
    }
}

fn status(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let area = state.layout.status;
    if area.height == 0 {
        return;
    }
    if let Some(prompt) = &state.prompt {
        let used = draw_text(buffer, 0, area.y, prompt.ask.title(), area.width, theme.title());
        let room = usize::from(area.width.saturating_sub(used + 1));
        // What is scrolled past has no control characters either: the prompt takes none.
        let skip = prompt.input.visual_scroll(room);
        let behind = &prompt.text()[cut(prompt.text(), skip).len()..];
        let typed = draw_text(buffer, used, area.y, &tame(behind), room as u16, Style::new());
        let cursor = used + prompt.input.visual_cursor().saturating_sub(skip) as u16;
        if cursor < used + typed {
            tint(buffer, Area { x: cursor, y: area.y, width: 1, height: 1 }, theme.cursor());
        } else {
            draw_text(buffer, cursor, area.y, theme.glyph("\u{2588}", "_"), 1, Style::new());
        }
        let message = format!("  {}", tame(&state.message));
        let x = used + typed + 1;
        draw_text(buffer, x, area.y, &message, area.width.saturating_sub(x), theme.quiet());
        return;
    }
    let left = if !state.message.is_empty() {
        let said = tame(&state.message);
        let all = lines(&said, area.width.into(), usize::from(area.y).max(1));
        // What does not fit on the line is told above it.
        for (line, text) in (0..).zip(&all[..all.len() - 1]) {
            let y = area.y - (all.len() - 1) as u16 + line;
            overlay::clear(buffer, Rect::new(0, y, area.width, 1));
            draw_text(buffer, 0, y, text, area.width, Style::new());
        }
        all[all.len() - 1].to_owned()
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
    let used = draw_text(buffer, 0, area.y, &left, area.width, Style::new());
    let room = area.width.saturating_sub(used + 2);
    // Where the keys have no row of their own, the one of the help stands here.
    let help = if state.layout.keys.height == 0 { "? help" } else { "" };
    let width = (help.width() as u16).min(room);
    draw_text(buffer, area.width - width, area.y, help, width, theme.quiet());
    if let Some(label) = state.opened.label().map(|label| tame(&label)) {
        let style = if state.opened.trace.damage.is_empty() { theme.quiet() } else { theme.alarm() };
        let gap = if width > 0 { width + 2 } else { 0 };
        let room = room.saturating_sub(gap).min(label.width() as u16);
        draw_text(buffer, (area.width - gap).saturating_sub(room), area.y, &label, room, style);
    }
}

/// The keys that fit what the user is at.
fn keys(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let area = state.layout.keys;
    if area.height == 0 {
        return;
    }
    for (x, hint) in state.footer() {
        let used = draw_text(buffer, x, area.y, &hint.keys, area.width.saturating_sub(x), theme.title());
        draw_text(buffer, x + used + 1, area.y, hint.about, area.width.saturating_sub(x + used + 1), theme.quiet());
    }
}

/// What is known of the current event, in one or two columns.
fn panel(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let area = state.layout.details;
    let rule = theme.glyph("\u{2500}", "-").repeat(area.width.into());
    draw_text(buffer, area.x, area.y, &rule, area.width, theme.quiet());
    let details = match state.tab {
        Tab::Findings => finding::selected(state),
        Tab::Timeline | Tab::Events => details::details(state),
        _ => vec![],
    };
    let height = usize::from(area.height.saturating_sub(1));
    if details.is_empty() {
        return draw_summary(state, theme, buffer);
    }
    let rows = |columns: u16| {
        let room = usize::from((area.width / columns).saturating_sub(INDENT + 2)).max(8);
        details.iter().flat_map(|line| wrapped(line, room)).collect::<Vec<_>>()
    };
    let columns = if area.width >= 100 && rows(1).len() > height { 2 } else { 1 };
    let (details, width) = (rows(columns), area.width / columns);
    let room = height * usize::from(columns);
    let skipped = state.detail.min((details.len() + 1).saturating_sub(room));
    let left = (details.len() - skipped).saturating_sub(room);
    for (index, line) in details.iter().skip(skipped).enumerate().take(room) {
        let (x, y) = ((index / height.max(1)) as u16 * width, area.y + 1 + (index % height.max(1)) as u16);
        if left > 0 && index + 1 == room {
            let key = state.keymap.keys(Action::DetailsDown).first().copied().unwrap_or("a taller terminal");
            draw_text(buffer, x, y, &format!("and {} more: {key} scrolls", left + 1), width, theme.quiet());
            break;
        }
        let style = match line.tone {
            Tone::Title => theme.title(),
            Tone::Plain => Style::new(),
            Tone::Bad => theme.alarm(),
            Tone::Quiet => theme.quiet(),
        };
        let label = draw_text(buffer, x, y, &line.label, width.saturating_sub(1).min(18), theme.quiet());
        let indent = label.max(INDENT) + 1;
        draw_text(buffer, x + indent, y, &line.text, width.saturating_sub(indent + 1), style);
    }
}

/// What there is to say of a table, and of a timeline with nothing under the cursor.
fn draw_summary(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let area = state.layout.details;
    let hint = match state.tab {
        Tab::Timeline | Tab::Events => "no event under the cursor; . and , go to events",
        _ if state.table.note.is_empty() => "enter goes to the slowest instance; o sorts by the next column",
        _ => state.table.note,
    };
    let mut all: Vec<(String, Style)> = Vec::new();
    if state.tab.is_table() {
        all.extend(state.table.busy.iter().map(|busy| (busy.clone(), Style::new())));
    }
    all.push((hint.into(), theme.quiet()));
    let report = state.tab.report(state.opened.summary().timing.is_some());
    all.extend(report.map(|report| {
        let path = state.opened.path.display();
        (tame(&format!("more: cutrace report {path} -r {report}")), theme.quiet())
    }));
    let wide = usize::from(area.width);
    let rows = all.iter().flat_map(|(text, style)| lines(text, wide, 4).into_iter().map(|line| (line, *style)));
    for (y, (text, style)) in (area.y + 1..area.y + area.height).zip(rows) {
        draw_text(buffer, area.x, y, text, area.width, style);
    }
}

/// Where the text of a detail begins, if its label is no longer.
const INDENT: u16 = 14;

/// In as many lines as it takes, broken at blanks where there are some; at most four, for what nobody would
/// read.
fn wrapped(line: &details::Detail, room: usize) -> Vec<details::Detail> {
    let room = room.saturating_sub(line.label.width().min(18).saturating_sub(usize::from(INDENT))).max(8);
    let pieces = lines(&line.text, room, 4).into_iter().enumerate();
    let label = |n: usize| if n == 0 { line.label.clone() } else { String::new() };
    pieces.map(|(n, text)| details::Detail { label: label(n), text: text.to_owned(), tone: line.tone }).collect()
}
