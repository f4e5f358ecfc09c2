//! The effect of the mouse.

use crate::state::fields::State;
use crate::state::parts::tab::Tab;
use crate::state::parts::window::Window;

impl State {
    pub(crate) fn time_at(&self, x: u16) -> u64 {
        let column = u64::from(x.saturating_sub(self.layout.lanes.x)).min(self.window.columns - 1);
        self.window.column_begin(column)
    }

    pub(crate) fn press(&mut self, x: u16, y: u16) {
        self.message.clear();
        if std::mem::take(&mut self.legend) || self.help.take().is_some() || self.prompt.take().is_some() {
            return;
        }
        let layout = self.layout;
        if layout.title.contains(x, y) {
            return self.tab_at(x).into_iter().for_each(|tab| self.show_tab(tab));
        }
        if layout.overview.contains(x, y) {
            let column = u64::from(x - layout.overview.x);
            let time =
                (u128::from(self.window.end) * u128::from(column) / u128::from(layout.overview.width.max(1))) as u64;
            let half = self.window.width() / 2;
            let from = time.saturating_sub(half).min(self.window.end.saturating_sub(self.window.width()));
            let width = self.window.width();
            self.move_window(
                Window { from, to: from + width, cursor: from + width / 2, ..self.window }.resized(self.window.columns),
            );
            return;
        }
        if self.tab != Tab::Timeline {
            if self.tab.is_table() && layout.main.contains(x, y) && y == layout.main.y {
                self.press_head(x);
            }
            if layout.main.contains(x, y) && y > layout.main.y {
                let row = usize::from(y - layout.main.y - 1);
                match self.tab {
                    Tab::Events => self.step_in_list(row as i64 - self.list_offset() as i64),
                    _ => self.table_row = (self.table_top() + row).min(self.table.rows.len().saturating_sub(1)),
                }
            }
            return;
        }
        if layout.main.contains(x, y) {
            let row = self.row_at(y);
            if let Some(row) = row {
                self.row = row;
                self.event = None;
            }
            if x < layout.lanes.x {
                let row = row.and_then(|row| self.rows.get(row));
                let marker = row.filter(|row| row.folded.is_some()).map(|row| row.level);
                if marker.is_some_and(|level| x <= level + 1) {
                    self.fold();
                }
                return;
            }
        }
        if layout.lanes.contains(x, y) || layout.axis.contains(x, y) {
            let time = self.time_at(x);
            self.move_window(Window { cursor: time, ..self.window });
            self.event = self.lane().and_then(|at| {
                let lane = self.lane_of(at)?;
                // The event that the column shows: its longest.
                let longest = lane.cell(time, time.saturating_add(self.window.step())).longest?;
                Some((at, longest as usize))
            });
            (self.anchor, self.fixed) = (Some(self.snapped(time)), None);
        }
    }

    pub(crate) fn drag(&mut self, x: u16, _y: u16) {
        if self.anchor.is_some() && self.fixed.is_none() && self.tab == Tab::Timeline {
            let time = self.time_at(x);
            self.move_window(Window { cursor: time, ..self.window });
        }
    }

    pub(crate) fn wheel(&mut self, x: u16, y: u16, up: bool, pan: bool) {
        if self.help.is_some() {
            return self.scroll_help(if up { -3 } else { 3 });
        }
        if self.tab != Tab::Timeline || !(self.layout.lanes.contains(x, y) || self.layout.axis.contains(x, y)) {
            self.step(if up { -3 } else { 3 });
            return self.scroll();
        }
        if pan {
            return self.move_window(self.window.panned(if up { -0.1 } else { 0.1 }));
        }
        let time = self.time_at(x);
        self.move_window(Window { cursor: time, ..self.window }.zoomed(if up { 0.8 } else { 1.25 }));
    }
}
