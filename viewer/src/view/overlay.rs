//! What lies over the rest: the help and the palette.

use super::paint::put;
use super::theme::Theme;
use crate::state::{State, help};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

pub fn draw(state: &State, theme: &Theme, buffer: &mut Buffer) {
    if let Some(scroll) = state.help {
        help(state, theme, buffer, scroll);
    }
    palette(state, theme, buffer);
}

pub fn clear(buffer: &mut Buffer, area: Rect) {
    let area = area.intersection(*buffer.area());
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            if let Some(cell) = buffer.cell_mut((x, y)) {
                cell.reset();
            }
        }
    }
}

fn help(state: &State, theme: &Theme, buffer: &mut Buffer, scroll: usize) {
    let (width, height) = state.size;
    clear(buffer, Rect::new(0, 0, width, height));
    put(buffer, 0, 0, "Keys (up and down scroll; any other key closes)", width, theme.title());
    let lines = help::lines(state);
    let scroll = scroll.min(lines.len().saturating_sub(usize::from(height.saturating_sub(1))));
    for (y, line) in (1..height).zip(&lines[scroll..]) {
        put(buffer, 1, y, &line.keys, help::ABOUT - 2, theme.title());
        let (x, style) = if line.is_note { (1, theme.quiet()) } else { (help::ABOUT, Style::new()) };
        put(buffer, x, y, &line.text, width.saturating_sub(x), style);
    }
}

fn palette(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let offered = state.offered();
    let Some(prompt) = state.prompt.as_ref().filter(|_| !offered.is_empty()) else { return };
    let status = state.layout.status;
    let most = usize::from(status.y).min(12);
    let shown = offered.len().min(most);
    let top = prompt.choice.saturating_sub(shown.saturating_sub(1));
    let y = status.y - shown as u16;
    clear(buffer, Rect::new(0, y, status.width, shown as u16));
    for (line, action) in offered.iter().skip(top).take(shown).enumerate() {
        let keys = state.keymap.keys(action.action).join(" ");
        let text = format!(" {:<16} {:<14} {}", action.name, keys, action.about);
        let style = if top + line == prompt.choice { theme.chosen().patch(theme.title()) } else { Style::new() };
        let text = format!("{text:<width$}", width = usize::from(status.width));
        put(buffer, 0, y + line as u16, &text, status.width, style);
    }
}
