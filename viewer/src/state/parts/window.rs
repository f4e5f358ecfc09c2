//! The visible piece of time, and the cursor in it.

/// Nanoseconds a column at the closest zoom.
const CLOSEST: u64 = 1;

/// `from` up to `to`, shown in `columns` columns; all in nanoseconds since the start of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub from: u64,
    pub to: u64,
    pub cursor: u64,
    pub columns: u64,
    /// Where the trace ends.
    pub end: u64,
}

impl Window {
    pub(crate) fn whole(end: u64, columns: u64) -> Window {
        let end = end.max(1);
        Window { from: 0, to: end, cursor: 0, columns: columns.max(1), end }.settled()
    }

    pub fn width(&self) -> u64 {
        self.to - self.from
    }

    /// Nanoseconds of one column, rounded up.
    pub fn step(&self) -> u64 {
        self.width().div_ceil(self.columns).max(1)
    }

    /// Where column `column` begins.
    pub fn column_begin(&self, column: u64) -> u64 {
        self.from + (u128::from(self.width()) * u128::from(column) / u128::from(self.columns)) as u64
    }

    /// The column that shows a moment; none if it is outside.
    pub(crate) fn column(&self, time: u64) -> Option<u64> {
        if time < self.from || time >= self.to {
            return None;
        }
        // The last column that does not begin after it.
        let near = (u128::from(time - self.from) * u128::from(self.columns) / u128::from(self.width())) as u64;
        let column = if self.column_begin(near + 1) <= time { near + 1 } else { near };
        Some(column.min(self.columns - 1))
    }

    /// Where the columns begin, and where the last ends.
    pub(crate) fn edges(&self) -> Vec<u64> {
        (0..=self.columns).map(|column| self.column_begin(column)).collect()
    }

    /// Within the trace, at least as wide as it has columns, the cursor inside.
    fn settled(mut self) -> Window {
        let least = self.columns.max(1) * CLOSEST;
        let most = self.end.max(least);
        let width = self.to.saturating_sub(self.from).clamp(least, most);
        self.from = self.from.min(most - width);
        self.to = self.from + width;
        self.cursor = self.cursor.clamp(self.from, self.to - 1);
        self
    }

    pub(crate) fn resized(self, columns: u64) -> Window {
        Window { columns: columns.max(1), ..self }.settled()
    }

    /// Over a trace that has grown or shrunk; one that showed all of it goes on doing so.
    pub(crate) fn ended(self, end: u64) -> Window {
        let end = end.max(1);
        let to = if self.from == 0 && self.to >= self.end { end } else { self.to };
        Window { to, end, ..self }.settled()
    }

    /// The cursor stays where it is on the screen. `times` 0.5 shows half as much.
    pub(crate) fn zoomed(self, times: f64) -> Window {
        let width =
            ((self.width() as f64 * times) as u64).max(self.columns.max(1) * CLOSEST).min(self.end.max(self.columns));
        let share = (self.cursor - self.from) as f64 / self.width() as f64;
        let from = self.cursor.saturating_sub((share * width as f64) as u64);
        Window { from, to: from.saturating_add(width), ..self }.settled()
    }

    /// By a share of its width; the cursor goes along.
    pub fn panned(self, share: f64) -> Window {
        let by = ((self.width() as f64 * share.abs()) as u64).max(1);
        let moved = |time: u64| if share < 0.0 { time.saturating_sub(by) } else { time.saturating_add(by) };
        let cursor = moved(self.cursor);
        let from = moved(self.from).min(self.end.saturating_sub(self.width()));
        Window { from, to: from + self.width(), cursor, ..self }.settled()
    }

    /// With the cursor at a moment that is in the window; a margin of a tenth if the window had to move.
    pub(crate) fn showing(self, time: u64) -> Window {
        let time = time.min(self.end.max(self.columns).saturating_sub(1));
        if (self.from..self.to).contains(&time) {
            return Window { cursor: time, ..self };
        }
        let width = self.width();
        let from = if time < self.from {
            time.saturating_sub(width / 10)
        } else {
            time.saturating_add(width / 10).saturating_sub(width).max(time.saturating_sub(width - 1))
        };
        Window { from, to: from + width, cursor: time, ..self }.settled()
    }

    /// The cursor by so many columns, taking the window along at its edges.
    pub(crate) fn stepped(self, columns: i64) -> Window {
        let column = self.column(self.cursor).unwrap_or(0) as i64 + columns;
        if (0..self.columns as i64).contains(&column) {
            return Window { cursor: self.column_begin(column as u64), ..self };
        }
        self.panned(columns as f64 / self.columns as f64)
    }

    /// Exactly a piece of time, as far as the trace goes; the cursor stays if it is in it.
    pub(crate) fn with_range(self, from: u64, to: u64) -> Window {
        Window { from, to: to.max(from.saturating_add(1)), ..self }.settled()
    }

    /// Around a piece of time, with a margin of a twentieth on both sides.
    pub fn fitting(self, from: u64, to: u64) -> Window {
        let margin = (to - from) / 20;
        let from = from.saturating_sub(margin);
        Window { from, to: to.saturating_add(margin).max(from + 1), ..self }.settled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sound(window: Window) -> bool {
        let Window { from, to, cursor, columns, end } = window;
        let inside = to <= end.max(columns);
        to - from >= columns && inside && (from..to).contains(&cursor) && window.column(cursor).is_some()
    }

    #[test]
    fn zooming_keeps_what_is_under_the_cursor() {
        let window = Window { cursor: 300_000, ..Window::whole(1_000_000, 100) };
        let closer = window.zoomed(0.5).zoomed(0.5);
        assert_eq!((closer.width(), closer.cursor, closer.column(300_000)), (250_000, 300_000, Some(30)));
        let back = closer.zoomed(2.0).zoomed(2.0);
        assert_eq!((back.from, back.to), (0, 1_000_000));
    }

    #[test]
    fn every_moment_is_in_the_column_that_begins_with_it() {
        let window = Window { from: 7, to: 1_000, ..Window::whole(5_000, 97) };
        for column in 0..97 {
            assert_eq!(window.column(window.column_begin(column)), Some(column));
            assert_eq!(window.column(window.column_begin(column + 1) - 1), Some(column));
        }
    }

    proptest! {
        #[test]
        fn no_movement_leaves_the_trace(
            end in 0..u64::MAX / 4, columns in 0..500u64, moves in prop::collection::vec((0..8u8, any::<u64>()), 0..30)
        ) {
            let mut window = Window::whole(end, columns);
            for (what, by) in moves {
                window = match what {
                    0 => window.zoomed(0.5),
                    1 => window.zoomed(2.0),
                    2 => window.panned(-0.25),
                    3 => window.panned(0.25),
                    4 => window.showing(by % end.max(1)),
                    5 => window.stepped((by % 9) as i64 - 4),
                    6 => window.resized(by % 300),
                    _ => window.fitting(by % end.max(1), (by % end.max(1)).saturating_add(by % 1000)),
                };
                prop_assert!(sound(window), "{:?}", window);
            }
        }
    }
}
