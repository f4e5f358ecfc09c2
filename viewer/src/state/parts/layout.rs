//! The layout of a screen of a given size, for drawing and for the mouse.

/// A rectangle of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Area {
    /// Column of the left edge.
    pub x: u16,
    /// Row of the upper edge.
    pub y: u16,
    /// Number of columns.
    pub width: u16,
    /// Number of rows.
    pub height: u16,
}

impl Area {
    pub(crate) fn contains(&self, x: u16, y: u16) -> bool {
        (self.x..self.x.saturating_add(self.width)).contains(&x)
            && (self.y..self.y.saturating_add(self.height)).contains(&y)
    }
}

/// From top to bottom: title, overview of the whole trace, time axis, main part, details, status, keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Layout {
    pub(crate) title: Area,
    pub(crate) overview: Area,
    pub(crate) axis: Area,
    /// Names of rows, left of the lanes.
    pub names: Area,
    /// The lanes, right of the names.
    pub lanes: Area,
    /// The whole main part, where tables and lists stand.
    pub main: Area,
    /// Below the lanes of a high screen: a table, its title first.
    pub under: Area,
    pub(crate) details: Area,
    pub(crate) status: Area,
    /// The keys that fit.
    pub keys: Area,
}

/// Screens from this height on have a table below the lanes, which have the other two thirds of at least so
/// many lines.
const HIGH: u16 = 40;
const LEAST: u16 = 18;

impl Layout {
    /// `split`: a table stands below the lanes, if there is room.
    pub fn new(width: u16, height: u16, details: bool, split: bool) -> Layout {
        let names = (width / 4).clamp(0, 28);
        let mut left = height;
        let mut take = |wanted: u16, spare: u16| {
            let taken = if left >= wanted.saturating_add(spare) { wanted } else { 0 };
            left -= taken;
            taken
        };
        // What matters most takes its rows first.
        let status = take(1, 0);
        let title = take(1, 1);
        let axis = take(1, 2);
        let keys = take(1, 6);
        let overview = take(2, 6);
        let details = if details { take((height / 3).clamp(4, 14), 4) } else { 0 };
        let under = if split && height >= HIGH && left >= LEAST { (left / 3).clamp(7, 18) } else { 0 };
        let main = left - under;
        let row = |y, height| Area { x: 0, y, width, height };
        let right = |y, height| Area { x: names, y, width: width - names, height };
        let top = title + overview + axis;
        Layout {
            title: row(0, title),
            overview: right(title, overview),
            axis: right(title + overview, axis),
            names: Area { x: 0, y: top, width: names, height: main },
            lanes: right(top, main),
            main: row(top, main),
            under: row(top + main, under),
            details: row(top + main + under, details),
            status: row(top + main + under + details, status),
            keys: row(top + main + under + details + status, keys),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_its_rows_and_no_more() {
        for (width, height) in (0..60).flat_map(|w| (0..60).map(move |h| (w * 5, h * 2))) {
            for (details, split) in [(false, false), (true, false), (false, true), (true, true)] {
                let l = Layout::new(width, height, details, split);
                let rows = l.title.height
                    + l.overview.height
                    + l.axis.height
                    + l.main.height
                    + l.under.height
                    + l.details.height
                    + l.status.height
                    + l.keys.height;
                assert_eq!(rows, height);
                assert_eq!(l.names.width + l.lanes.width, width);
            }
        }
    }
}
