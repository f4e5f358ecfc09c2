//! What lies over the rest: the help and the palette.

use super::put;
use super::theme::Theme;
use crate::state::State;
use crate::state::action::actions;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

pub fn draw(state: &State, theme: &Theme, buffer: &mut Buffer) {
    if let Some(scroll) = state.help {
        help(state, theme, buffer, scroll);
    }
    palette(state, theme, buffer);
}

fn clear(buffer: &mut Buffer, area: Rect) {
    let area = area.intersection(*buffer.area());
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            if let Some(cell) = buffer.cell_mut((x, y)) {
                cell.reset();
            }
        }
    }
}

fn help(state: &State, theme: &Theme, buffer: &mut Buffer, scroll: u16) {
    let (width, height) = state.size;
    clear(buffer, Rect::new(0, 0, width, height));
    let lines: Vec<(String, String)> =
        actions().map(|line| (state.keymap.keys(line.action).join(" "), line.about.to_owned())).collect();
    let notes = [
        "",
        "Lanes of threads show calls: solid. Lanes with ~ show work of a stream, hatched: from its submission to the next",
        "one, or to the wait that told of its end. When it ran in between, the trace does not say. Of a trace with device",
        "times (cutrace replay --profile) lanes of streams are solid: work as a replay measured it, as long after its",
        "recorded call as it came after the replay's, or behind the work before it; or (record --gpu-times) as it was.",
        "Colours: green launches, blue copies, yellow waits and questions, purple memory and modules, red failures.",
        "Keys are set in cutrace/view.toml in the configuration directory: [keys] zoom-in = [\"w\", \"+\"]",
    ];
    let total = lines.len() + notes.len();
    let body = usize::from(height.saturating_sub(1));
    let first = usize::from(scroll).min(total.saturating_sub(body));
    put(buffer, 0, 0, "Keys (up and down scroll; any other key closes)", width, theme.title());
    for (line, index) in (first..total.min(first + body)).enumerate() {
        let y = 1 + line as u16;
        match lines.get(index) {
            Some((keys, about)) => {
                put(buffer, 1, y, keys, 20, theme.title());
                put(buffer, 22, y, about, width.saturating_sub(22), Style::new());
            }
            None => {
                put(buffer, 1, y, notes[index - lines.len()], width.saturating_sub(1), theme.quiet());
            }
        }
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
