//! The parts of one collective at all ranks, connected from lane to lane: from the point where one rank began
//! it down to the next rank's. The last rank, or one that has not begun, is named. Only empty cells are drawn
//! on.

use super::cells::place;
use super::paint::{draw_text, glyph, is_free};
use super::theme::Theme;
use crate::data::event::Category;
use crate::state::State;
use crate::state::lines::Placed;
use crate::text::duration;
use ratatui::buffer::Buffer;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

/// A rank's part, or where it would be, of a lane that is on the screen.
struct Part {
    on: Placed,
    /// None of one that has not begun it.
    begin: Option<u64>,
    x: u16,
}

pub(super) fn draw(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let Some((job, (lane, at))) = state.opened.job.as_ref().zip(state.collective()) else { return };
    if state.layout.lanes.width == 0 {
        return;
    }
    let begun: Vec<(usize, u64)> = std::iter::once((lane, at))
        .chain(job.counterparts(lane, at))
        .filter_map(|(lane, at)| Some((lane, job.operation(lane, at)?.begin)))
        .collect();
    let behind = job.missing_ranks(lane, at);
    let (Some(first), Some(last)) =
        (begun.iter().map(|(_, begin)| *begin).min(), begun.iter().map(|(_, begin)| *begin).max())
    else {
        return;
    };
    let wanted: Vec<(usize, Option<u64>)> = begun
        .iter()
        .map(|(lane, begin)| (*lane, Some(*begin)))
        .chain(behind.iter().map(|lane| (*lane, None)))
        .collect();
    let parts = parts(state, &wanted, last);
    for two in parts.windows(2) {
        draw_link(theme, buffer, &two[0], &two[1]);
    }
    draw_links_to_edges(state, theme, buffer, &parts, &wanted);
    for part in &parts {
        match part.begin {
            None => behind_it(theme, buffer, part, state.layout.lanes.x),
            Some(begin) if begin == last && last > first && behind.is_empty() => {
                let text = format!("last, +{}", duration(last - first));
                before_it(buffer, part, &text, state.layout.lanes.x, theme.title());
            }
            Some(_) => {}
        }
    }
}

/// Those on the screen, from top to bottom.
fn parts(state: &State, wanted: &[(usize, Option<u64>)], last: u64) -> Vec<Part> {
    let window = &state.window;
    let column = |time: u64| window.column(time.clamp(window.from, window.to - 1)).unwrap_or(0);
    let part = |on: Placed| {
        let (_, begin) = *wanted.iter().find(|(lane, _)| state.rows[on.row].lanes.contains(lane))?;
        Some(Part { on, begin, x: place(state, column(begin.unwrap_or(last)) as usize) })
    };
    state.placed().into_iter().filter_map(part).collect()
}

/// Draws where nothing is.
fn line(theme: &Theme, buffer: &mut Buffer, x: u16, y: u16, (symbol, ascii): (&'static str, &'static str)) {
    if is_free(buffer, x, y) {
        glyph(buffer, x, y, theme.glyph(symbol, ascii), theme.ink_of(Category::Submit, false));
    }
}

const DOWN: (&str, &str) = ("\u{2503}", "|");

/// Down from the upper part, over to where the lower one begins, in the lowest of the lines with most room, and
/// down to it.
fn draw_link(theme: &Theme, buffer: &mut Buffer, upper: &Part, lower: &Part) {
    let (left, right) = (upper.x.min(lower.x), upper.x.max(lower.x));
    let room = |y: u16| (left..=right).filter(|x| is_free(buffer, *x, y)).count();
    let lines = upper.on.y + upper.on.height..lower.on.y;
    let Some(turn) = lines.clone().max_by_key(|y| (room(*y), *y)) else { return };
    (lines.start..turn).for_each(|y| line(theme, buffer, upper.x, y, DOWN));
    (turn + 1..lines.end).for_each(|y| line(theme, buffer, lower.x, y, DOWN));
    let (from, to) = match upper.x.cmp(&lower.x) {
        std::cmp::Ordering::Equal => return line(theme, buffer, upper.x, turn, DOWN),
        std::cmp::Ordering::Less => (("\u{2517}", "+"), ("\u{2513}", "+")),
        std::cmp::Ordering::Greater => (("\u{251b}", "+"), ("\u{250f}", "+")),
    };
    line(theme, buffer, upper.x, turn, from);
    (left + 1..right).for_each(|x| line(theme, buffer, x, turn, ("\u{2501}", "-")));
    line(theme, buffer, lower.x, turn, to);
}

/// To the edges beyond which there are other parts.
fn draw_links_to_edges(
    state: &State,
    theme: &Theme,
    buffer: &mut Buffer,
    parts: &[Part],
    wanted: &[(usize, Option<u64>)],
) {
    let area = state.layout.lanes;
    let rows = state.rows.iter().enumerate();
    let has_part = |row: &crate::state::parts::rows::Row| wanted.iter().any(|(lane, _)| row.lanes.contains(lane));
    let with_parts: Vec<usize> = rows.filter(|(_, row)| has_part(row)).map(|(at, _)| at).collect();
    let (Some(upper), Some(lower)) = (parts.first(), parts.last()) else { return };
    if with_parts.iter().any(|row| *row < upper.on.row) && upper.on.y > area.y {
        line(theme, buffer, upper.x, area.y, ("\u{25b4}", "^"));
        (area.y + 1..upper.on.y).for_each(|y| line(theme, buffer, upper.x, y, DOWN));
    }
    let (top, end) = (lower.on.y + lower.on.height, area.y + area.height);
    if with_parts.iter().any(|row| *row > lower.on.row) && end > top {
        (top..end - 1).for_each(|y| line(theme, buffer, lower.x, y, DOWN));
        line(theme, buffer, lower.x, end - 1, ("\u{25be}", "v"));
    }
}

/// Where the part of a rank would be that has not begun it, or before that, if nothing stands there.
fn behind_it(theme: &Theme, buffer: &mut Buffer, part: &Part, left: u16) {
    let text = "not begun";
    if (part.x..part.x + text.width() as u16).all(|x| is_free(buffer, x, part.on.y)) {
        draw_text(buffer, part.x, part.on.y, text, text.width() as u16, theme.alarm());
    } else {
        before_it(buffer, part, text, left, theme.alarm());
    }
}

/// In the free cells before where a part begins.
fn before_it(buffer: &mut Buffer, part: &Part, text: &str, left: u16, style: Style) {
    let width = text.width() as u16;
    let Some(from) = part.x.checked_sub(width + 1).filter(|from| *from >= left) else { return };
    if (from..part.x).all(|x| is_free(buffer, x, part.on.y)) {
        draw_text(buffer, from, part.on.y, text, width, style);
    }
}
