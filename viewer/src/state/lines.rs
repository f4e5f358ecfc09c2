//! The positions of the timeline's rows on the screen: lanes are as high as there is room for.

use super::fields::State;
use crate::state::parts::rows::{self, Arrangement, Row};

/// Lines that a lane takes at most.
const TALLEST: u16 = 3;

/// A row on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Its place among all rows.
    pub row: usize,
    pub(crate) y: u16,
    pub(crate) height: u16,
}

/// Lines of a row, of which a lane takes so many: a group that is unfolded shows nothing but its name.
fn height(row: &Row, tall: u16) -> u16 {
    let is_title = row.folded.is_some() && row.lanes.is_empty() && row.memory.is_none();
    if is_title { 1 } else { tall }
}

impl State {
    /// Lines that a lane takes: as many as let all rows be seen.
    pub(crate) fn tall(&self) -> u16 {
        let room = u64::from(self.layout.lanes.height);
        let fits = |tall: &u16| self.rows.iter().map(|row| u64::from(height(row, *tall))).sum::<u64>() <= room;
        (2..=TALLEST).rev().find(fits).unwrap_or(1)
    }

    /// The rows that are on the screen, from top to bottom.
    pub fn placed(&self) -> Vec<Placed> {
        let (area, tall) = (self.layout.lanes, self.tall());
        let (mut y, end) = (area.y, area.y + area.height);
        let mut all = Vec::new();
        for (row, shown) in self.rows.iter().enumerate().skip(self.top) {
            let height = height(shown, tall);
            if y + height > end {
                break;
            }
            all.push(Placed { row, y, height });
            y += height;
        }
        all
    }

    /// The row in a line of the screen.
    pub(crate) fn row_at(&self, y: u16) -> Option<usize> {
        let placed = self.placed().into_iter().find(|placed| (placed.y..placed.y + placed.height).contains(&y));
        placed.map(|placed| placed.row)
    }

    /// How the rows are arranged before the user does anything: what is nested is unfolded where all rows
    /// have room then. It depends on the size of the screen alone.
    pub(crate) fn first_arrangement(&self) -> Arrangement {
        let model = &self.opened.model;
        let room = crate::state::parts::layout::Layout::new(self.size.0, self.size.1, true, true).lanes.height;
        let unfolded = Arrangement::default();
        let fits = rows::rows(model, &unfolded).len() <= usize::from(room);
        if fits { unfolded } else { Arrangement::new(model) }
    }
}
