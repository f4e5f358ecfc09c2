//! Text, glyphs and styles on a buffer, clipped to its size.

use crate::state::parts::layout::Area;
use crate::text::cut;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use unicode_width::UnicodeWidthStr;

/// Text at a place, cut to so many cells and to the buffer; how many cells it took. The text must be tame.
pub(super) fn draw_text(buffer: &mut Buffer, x: u16, y: u16, text: &str, cells: u16, style: Style) -> u16 {
    let area = *buffer.area();
    if x >= area.right() || y >= area.bottom() {
        return 0;
    }
    let text = cut(text, usize::from(cells.min(area.right() - x)));
    buffer.set_stringn(x, y, text, usize::from(cells), style);
    text.width() as u16
}

/// One glyph at a place.
pub(super) fn glyph(buffer: &mut Buffer, x: u16, y: u16, symbol: &str, style: Style) {
    if let Some(cell) = buffer.cell_mut((x, y)) {
        cell.set_symbol(symbol).set_style(style);
    }
}

/// Whether a cell shows nothing.
pub(super) fn is_free(buffer: &Buffer, x: u16, y: u16) -> bool {
    let is_blank = |cell: &Cell| cell.symbol() == " " && cell.modifier.is_empty() && cell.bg == Color::Reset;
    buffer.cell((x, y)).is_some_and(is_blank)
}

/// Gives a piece of a row what is behind it: what stands there keeps its colour if it has one.
pub(super) fn draw_background(buffer: &mut Buffer, area: Area, style: Style) {
    let area = Rect::new(area.x, area.y, area.width, area.height).intersection(*buffer.area());
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            if let Some(cell) = buffer.cell_mut((x, y)) {
                let own = cell.fg;
                cell.set_style(style);
                if own != Color::Reset {
                    cell.set_fg(own);
                }
            }
        }
    }
}

/// Gives a piece of a row a style; what stands there stays.
pub(super) fn tint(buffer: &mut Buffer, area: Area, style: Style) {
    let area = Rect::new(area.x, area.y, area.width, area.height).intersection(*buffer.area());
    buffer.set_style(area, style);
}
