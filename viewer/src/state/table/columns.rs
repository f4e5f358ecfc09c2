//! The positions of a table's columns, for drawing and for the mouse.

use crate::state::fields::State;
use crate::state::parts::table_rows::{Line, Table};
use crate::text::cut;
use unicode_width::UnicodeWidthStr;

/// What stands behind so many cells.
fn text_after(text: String, cells: usize) -> String {
    if cells == 0 { text } else { text[cut(&text, cells).len()..].to_owned() }
}

/// Cells between two columns.
pub(crate) const BETWEEN: usize = 2;

impl Table {
    /// The cells of so many rows, from this one on.
    pub fn cells(&self, top: usize, rows: usize) -> Vec<Vec<String>> {
        let skipped = |column: usize| if column == self.wide { self.skipped } else { 0 };
        let cells = |row: &Line| {
            let texts = row.cells.iter().enumerate();
            texts.map(|(n, value)| text_after(value.text(), skipped(n))).collect()
        };
        self.rows.iter().skip(top).take(rows).map(cells).collect()
    }

    /// The columns that fit into so many cells, from left to right, each with its width.
    pub fn fitting(&self, cells: &[Vec<String>], room: usize) -> Vec<(usize, usize)> {
        // As wide as what is shown; the wide column takes the rest.
        let width = |column: usize| {
            let cells = cells.iter().map(|row| row.get(column).map_or(0, |text| text.width()));
            cells.max().unwrap_or(0).max(self.columns[column].len() + 1)
        };
        let mut columns: Vec<(usize, usize)> = (0..self.columns.len()).map(|n| (n, width(n))).collect();
        let total = |columns: &[(usize, usize)]| columns.iter().map(|(_, width)| width + BETWEEN).sum::<usize>();
        // A name needs some room, too.
        if let Some((_, wide)) = columns.get_mut(self.wide) {
            *wide = (*wide).min(room / 2).max(8);
        }
        // What does not fit is left out: figures that others come close to, then from the right.
        while total(&columns) > room + BETWEEN && columns.len() > 2 {
            let can_go = |(n, _): &(usize, usize)| *n != self.wide && *n != self.sorted;
            let named = |name: &&str| columns.iter().position(|of| self.columns[of.0] == *name && can_go(of));
            let least = ["p99", "Min", "Med", "Max"].iter().find_map(named);
            columns.remove(least.or_else(|| columns.iter().rposition(can_go)).unwrap_or(0));
        }
        let left = (room + BETWEEN).saturating_sub(total(&columns));
        columns.iter_mut().filter(|(n, _)| *n == self.wide).for_each(|(_, width)| *width += left);
        columns
    }
}

impl State {
    /// The cells of the rows that are on the screen.
    pub fn table_cells(&self) -> Vec<Vec<String>> {
        self.table.cells(self.table_top(), usize::from(self.layout.main.height.saturating_sub(1)))
    }

    /// The columns that fit, from left to right, each with its width.
    pub fn table_columns(&self, cells: &[Vec<String>]) -> Vec<(usize, usize)> {
        // The last cell is the scroll bar's.
        self.table.fitting(cells, usize::from(self.layout.main.width.saturating_sub(1)))
    }

    /// Scrolls the names, which may be longer than their column.
    pub(crate) fn scroll_names(&mut self, forward: bool) {
        let cells = self.table_cells();
        let shown = self.table_columns(&cells).into_iter().find(|(column, _)| *column == self.table.wide);
        let room = shown.map_or(0, |(_, width)| width);
        let longest = self.table.rows.iter().filter_map(|row| row.cells.get(self.table.wide));
        let longest = longest.map(|value| value.text().width()).max().unwrap_or(0);
        let by = (room / 2).max(1);
        let skipped = self.table.skipped;
        self.table.skipped =
            if forward { (skipped + by).min(longest.saturating_sub(room)) } else { skipped.saturating_sub(by) };
        if self.table.skipped == skipped {
            self.say(if forward { "no name is longer" } else { "names are shown from their start" });
        }
    }

    /// Sorts by the column whose head stands there; once more, the other way round.
    pub(crate) fn press_head(&mut self, x: u16) {
        let mut end = 0;
        let columns = self.table_columns(&self.table_cells());
        let found = columns.into_iter().find(|(_, width)| {
            end += width + BETWEEN;
            usize::from(x) < end
        });
        let Some((column, _)) = found else { return };
        let table = &mut self.table;
        table.reversed = if table.sorted == column { !table.reversed } else { table.reversed };
        (table.sorted, table.asked) = (column, true);
        table.sort();
    }
}
