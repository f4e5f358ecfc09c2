//! The cells of a lane: bars for events that fill a cell alone, levels for cells that stand for several.

use super::paint::{draw_text, glyph, tint};
use super::theme::{Depth, Theme};
use crate::data::event::{Category, Flags};
use crate::data::lane::{Cell, Lane, Source};
use crate::state::State;
use crate::state::parts::layout::Area;
use crate::text::duration;
use analysis::text::kernel_name::last_part;
use ratatui::buffer::Buffer;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

/// A lane to be drawn, and its place.
pub(super) struct Place<'a> {
    pub state: &'a State,
    pub theme: &'a Theme,
    pub lane: &'a Lane,
    pub edges: &'a [u64],
    /// The first line, and how many there are.
    pub y: u16,
    pub height: u16,
    /// What the filter leaves out is drawn dimly.
    pub dimmed: bool,
}

/// How an event is drawn.
#[derive(Clone, Copy)]
struct Look {
    flags: Flags,
    /// Work as the host knows it is not known to run all the time that it is outstanding.
    is_work: bool,
}

/// Where a column of the lanes is on the screen.
pub(super) fn place(state: &State, column: usize) -> u16 {
    state.layout.lanes.x + column as u16
}

/// A column as high as what it stands for takes of its time, over all lines. `eighths`: of each line's
/// height.
pub(super) fn level(theme: &Theme, buffer: &mut Buffer, x: u16, (y, height): (u16, u16), share: f64, style: Style) {
    let total = ((share * 8.0 * f64::from(height)).ceil() as usize).clamp(1, 8 * usize::from(height));
    for line in 0..height {
        let filled = total.saturating_sub(8 * usize::from(line)).min(8);
        if filled > 0 {
            glyph(buffer, x, y + height - 1 - line, theme.level(filled), style);
        }
    }
}

impl Place<'_> {
    /// Draws the cells, then the names of events that have room for theirs.
    pub(super) fn draw(&self, buffer: &mut Buffer, cells: &[Cell]) {
        let is_work = matches!(self.lane.source.inner(), Source::Stream(_));
        let mut column = 0;
        while column < cells.len() {
            let cell = &cells[column];
            let Some(longest) = cell.longest.map(|longest| longest as usize) else {
                column += 1;
                continue;
            };
            let mut flags = Flags(self.lane.flags[longest]);
            if self.dimmed {
                flags = Flags::new(Category::Query, false, flags.open());
            }
            let look = Look { flags, is_work };
            // A run of cells that one event fills alone is drawn as a bar.
            let alone = |cell: &Cell| cell.count == 1 && cell.longest == Some(longest as u32);
            let mut end = column;
            while cells.get(end).is_some_and(|cell| alone(cell) && self.is_full(cell, end)) {
                end += 1;
            }
            if end > column {
                self.bar(buffer, longest, (column, end), look);
                column = end;
                continue;
            }
            self.cell(buffer, cell, column, look);
            column += 1;
        }
    }

    fn is_full(&self, cell: &Cell, column: usize) -> bool {
        // Seven eighths: what begins within a cell begins with it, as far as one can see.
        cell.busy.saturating_mul(8) >= (self.edges[column + 1] - self.edges[column]).saturating_mul(7)
    }

    /// One that several events share, or that one does not fill.
    fn cell(&self, buffer: &mut Buffer, cell: &Cell, column: usize, look: Look) {
        let (theme, x) = (self.theme, place(self.state, column));
        let width = (self.edges[column + 1] - self.edges[column]).max(1);
        let share = cell.busy as f64 / width as f64;
        let eighths = ((share * 8.0).ceil() as usize).clamp(1, 8);
        let failed = if self.dimmed { 0 } else { u64::from(cell.failed) };
        // The colour is that of most of them: a few failures among many are a tick.
        let mostly = failed * 2 > cell.count;
        let category = look.flags.category();
        let style = theme.ink_of(category, mostly);
        let whole = |symbol: &str, buffer: &mut Buffer| {
            (self.y..self.y + self.height).for_each(|y| glyph(buffer, x, y, symbol, style));
        };
        match cell.count {
            _ if mostly => whole(theme.glyph("\u{2588}", "!"), buffer),
            // One event that is shorter than its cell.
            1 if eighths <= 2 => whole(theme.glyph("\u{258f}", "|"), buffer),
            _ if look.is_work => whole(shade(theme, eighths), buffer),
            _ => level(theme, buffer, x, (self.y, self.height), share, style),
        }
        if failed > 0 && !mostly {
            let lowest = (share * 8.0 * f64::from(self.height)).ceil() as usize;
            let (symbol, style) = theme.tick(category, lowest.min(8));
            glyph(buffer, x, self.y + self.height - 1, symbol, style);
        }
    }

    fn bar(&self, buffer: &mut Buffer, index: usize, (from, to): (usize, usize), look: Look) {
        let (state, theme) = (self.state, self.theme);
        let (x, width) = (place(state, from), (to - from) as u16);
        let (flags, category) = (look.flags, look.flags.category());
        let failed = flags.failed();
        let event = self.lane.event(index);
        let label = self.label(index, width, flags);
        let lines = self.y..self.y + self.height;
        // Below the name, where there is a line for it, how long it took.
        let took = duration(event.length());
        let took = Some(took).filter(|took| self.height > 1 && took.width() + 2 <= usize::from(width));
        if look.is_work || self.dimmed {
            let symbol = if look.is_work { theme.glyph("\u{2591}", "~") } else { theme.glyph("\u{2592}", "-") };
            let style = theme.ink_of(category, failed);
            for y in lines {
                (from..to).for_each(|column| glyph(buffer, place(state, column), y, symbol, style));
                glyph(buffer, x, y, theme.glyph("\u{258f}", "|"), style);
            }
            if !self.dimmed && width > 3 {
                draw_text(buffer, x + 1, self.y, &label, width - 2, style);
            }
        } else {
            let style = theme.fill(category, failed);
            // Without colours two bars beside each other must not look like one.
            let edge = u16::from(theme.ascii || theme.depth == Depth::None);
            for y in lines {
                tint(buffer, Area { x, y, width, height: 1 }, style);
                (from..to).for_each(|column| glyph(buffer, place(state, column), y, " ", style));
                if edge > 0 {
                    glyph(buffer, x, y, if failed { "!" } else { "[" }, style);
                }
            }
            let room = width.saturating_sub(1 + edge).max(1 - edge);
            draw_text(buffer, x + edge, self.y, &label, room, style);
            if let Some(took) = took {
                draw_text(buffer, x + edge, self.y + 1, &took, room, style);
            }
        }
        if state.search.as_ref().is_some_and(|search| search.hits(event.name)) {
            tint(buffer, Area { x, y: self.y, width, height: self.height }, theme.match_style());
        }
    }

    fn label(&self, index: usize, width: u16, flags: Flags) -> String {
        let model = &self.state.opened.model;
        let event = self.lane.event(index);
        let name = match flags.category() {
            Category::Launch if self.lane.source.is_thread() => {
                // A graph is many kernels: its launch keeps its own name.
                let work = model.find_work(event.call).map(|(lane, work)| (&model.lanes[lane], work));
                let alone = work.filter(|(lane, work)| lane.call.get(work + 1) != Some(&event.call));
                let kernel = alone.map(|(lane, work)| lane.name[work]);
                last_part(model.name(kernel.unwrap_or(event.name)))
            }
            Category::Launch => last_part(model.name(event.name)),
            _ => model.name(event.name),
        };
        match (width, flags.failed()) {
            (0..3, true) => "!".to_owned(),
            (0..3, false) => String::new(),
            (_, true) => format!("!{name}"),
            (_, false) if flags.open() => format!("{name} ?"),
            _ => name.to_owned(),
        }
    }
}

/// Work is not known to run all the time that it is outstanding: it is never drawn solid.
fn shade(theme: &Theme, eighths: usize) -> &'static str {
    match eighths {
        0..3 => theme.glyph("\u{2591}", "."),
        3..6 => theme.glyph("\u{2592}", "~"),
        _ => theme.glyph("\u{2593}", "~"),
    }
}
