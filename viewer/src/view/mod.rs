//! Drawing a [`State`]: nothing here changes it, and every size is drawn.

mod lists;
mod overlay;
mod overview;
pub mod theme;
mod timeline;

use crate::data::findings::{Gap, IDLE_TITLE};
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
    // With room for what stands on the right.
    let whole: usize = 22 + Tab::ALL.iter().map(|tab| tab.title().len() + 4).sum::<usize>();
    for (index, tab) in Tab::ALL.into_iter().enumerate() {
        let style = if tab == state.tab { theme.chosen().patch(theme.title()) } else { theme.quiet() };
        // Where not all names fit, the others are numbers alone.
        let label = match whole <= usize::from(area.width) || tab == state.tab {
            true => format!(" {} {} ", index + 1, tab.title()),
            false => format!(" {} ", index + 1),
        };
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
    let right = match state.opened.label() {
        Some(label) => tame(&label),
        None => {
            let ways =
                [format!("{}  ? help", tame(&state.command())), "Y: as a command  ? help".into(), "? help".into()];
            let [.., last] = &ways;
            ways.iter().find(|way| way.width() <= room.into()).unwrap_or(last).clone()
        }
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
        let report = state.tab.report(state.opened.summary().timing.is_some());
        if let Some(report) = report.filter(|_| height > 1) {
            let path = state.opened.path.display();
            let text = tame(&format!("more of it: cutrace report {path} -r {report}"));
            put(buffer, area.x, area.y + 2, &text, area.width, theme.quiet());
        }
        return;
    }
    let rows = |columns: u16| {
        let room = usize::from((area.width / columns).saturating_sub(INDENT + 2)).max(8);
        details.iter().flat_map(|line| wrapped(line, room)).collect::<Vec<_>>()
    };
    let columns = if area.width >= 100 && rows(1).len() > height { 2 } else { 1 };
    let (details, width) = (rows(columns), area.width / columns);
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
        let indent = label.max(INDENT) + 1;
        put(buffer, x + indent, y, &line.text, width.saturating_sub(indent + 1), style);
    }
}

/// Where the text of a detail begins, if its label is no longer.
const INDENT: u16 = 14;

/// In as many lines as it takes, broken at blanks where there are some; at most four, for what nobody would read.
fn wrapped(line: &details::Detail, room: usize) -> Vec<details::Detail> {
    let room = room.saturating_sub(line.label.width().min(18).saturating_sub(usize::from(INDENT))).max(8);
    let (mut all, mut rest) = (Vec::new(), line.text.as_str());
    loop {
        let label = if all.is_empty() { line.label.clone() } else { String::new() };
        let whole = rest.width() <= room || all.len() == 3;
        let piece = if whole { rest } else { cut(rest, room) };
        let at = if whole { piece.len() } else { piece.rfind(' ').filter(|at| *at > 0).unwrap_or(piece.len()) };
        all.push(details::Detail { label, text: rest[..at].to_owned(), tone: line.tone });
        rest = rest[at..].trim_start();
        if rest.is_empty() || at == 0 {
            return all;
        }
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
    let mut all = vec![
        detail("", tame(&found.title), Tone::Title),
        detail("what it means", found.why.clone(), Tone::Plain),
        detail("calls", calls.join(" "), Tone::Plain),
        detail("", "enter goes to the first of them".into(), Tone::Quiet),
    ];
    // Stretches in which a device was idle: what the host did meanwhile.
    let gaps = found.evidence.iter().filter_map(|call| summary.gaps.iter().find(|gap| gap.before == *call));
    if found.title == IDLE_TITLE {
        all.extend(gaps.take(8).map(|gap| detail(&duration(gap.length()), blamed(state, gap), Tone::Plain)));
    }
    all
}

/// What the host did while a device was idle: the call that took most of it, or its own work between calls.
fn blamed(state: &State, gap: &Gap) -> String {
    let model = &state.opened.model;
    let name = |call: u32| model.find_call(call).map_or("?", |(lane, at)| model.name(model.lanes[lane].name[at]));
    let from = format!("from call {} ({}) to call {} ({})", gap.after, name(gap.after), gap.before, name(gap.before));
    let Some((lane, at)) = model.find_call(gap.before) else { return from };
    let (lane, cell) = (&model.lanes[lane], model.lanes[lane].cell(gap.begin, gap.end));
    let longest = cell.longest.map(|longest| longest as usize).filter(|longest| *longest != at);
    match longest {
        Some(at) => {
            let within = lane.end(at).min(gap.end).saturating_sub(lane.begin[at].max(gap.begin));
            let outside = duration(gap.length().saturating_sub(cell.busy));
            let (call, took) = (lane.call[at], duration(within));
            format!("{from}: {took} in call {call} ({}), {outside} outside of the driver", name(call))
        }
        None => format!("{from}: the thread made no call in between"),
    }
}
