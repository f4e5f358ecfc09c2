//! Overlays: the help, the legend and the palette.

use super::legend;
use super::paint::draw_text;
use super::theme::Theme;
use crate::state::help::Kind;
use crate::state::{Help, State, help};
use crate::text::tame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

pub(super) fn draw(state: &State, theme: &Theme, buffer: &mut Buffer) {
    if state.help.is_some() {
        help(state, theme, buffer);
    }
    if state.legend {
        legend::draw(theme, buffer, state.size, &state.opened);
    }
    palette(state, theme, buffer);
}

pub(super) fn clear(buffer: &mut Buffer, area: Rect) {
    let area = area.intersection(*buffer.area());
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            if let Some(cell) = buffer.cell_mut((x, y)) {
                cell.reset();
            }
        }
    }
}

fn help(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let Some(Help { scroll, filter, is_typed }) = &state.help else { return };
    let (width, height) = state.size;
    clear(buffer, Rect::new(0, 0, width, height));
    let used = match (filter.is_empty(), is_typed) {
        (true, false) => draw_text(buffer, 0, 0, "Keys", width, theme.title()),
        _ => draw_text(buffer, 0, 0, &tame(&format!("Keys with {filter:?}")), width, theme.title()),
    };
    let way = match is_typed {
        true => "  enter: only these; esc: all",
        false => "  / finds, up and down scroll, any other key closes",
    };
    draw_text(buffer, used, 0, way, width.saturating_sub(used), theme.quiet());
    let lines = help::lines(state);
    let scroll = (*scroll).min(lines.len().saturating_sub(usize::from(height.saturating_sub(2))));
    for (y, line) in (2..height).zip(&lines[scroll..]) {
        let (x, style) = match line.kind {
            Kind::Group => {
                draw_text(buffer, 0, y, &line.keys, width, theme.title().add_modifier(Modifier::UNDERLINED));
                continue;
            }
            Kind::Action => (help::ABOUT, Style::new()),
            Kind::Note => (1, theme.quiet()),
        };
        draw_text(buffer, 1, y, &line.keys, help::ABOUT - 2, theme.title());
        draw_text(buffer, x, y, &line.text, width.saturating_sub(x), style);
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
        draw_text(buffer, 0, y + line as u16, &text, status.width, style);
    }
}
