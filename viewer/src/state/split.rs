//! The table below the timeline, which sums the window or the selection by the kind of the selected row.

use super::fields::State;
use super::table::Table;
use crate::data::lane::Source;
use crate::state::parts::action::Action;
use crate::state::parts::rows::Id;
use crate::state::parts::scope::{Basis, Scope};
use crate::state::parts::tab::Tab;
use crate::text::counted;

/// More events are not added up each time that the window moves.
const MOVING: u64 = 500_000;

impl State {
    pub(crate) fn toggle_split(&mut self) {
        self.splits = !self.splits;
        self.resize(self.size.0, self.size.1);
        let is_low = self.splits && self.layout.under.height == 0 && self.tab == Tab::Timeline;
        if is_low {
            self.say("the table below the timeline needs a screen of 40 lines");
        }
    }

    /// What the table below the timeline lists: what the row has, by name.
    fn under_tab(&self) -> Tab {
        let source = self.lane().and_then(|at| self.lane_of(at)).map(|lane| lane.source.inner());
        match (source, self.rows.get(self.row).map(|row| row.id), self.scope()) {
            (Some(Source::Range { .. }), _, Scope::Range(..)) => Tab::Kernels,
            (Some(Source::Range { .. }), ..) => Tab::Ranges,
            (Some(Source::Stream(_) | Source::Device { .. }), ..) => Tab::Kernels,
            (None, Some(Id::Device(_) | Id::Context(..)), _) => Tab::Kernels,
            _ => Tab::Api,
        }
    }

    /// Makes the table below the timeline anew if what it is of has changed.
    pub(crate) fn refresh_under(&mut self) {
        if self.layout.under.height == 0 || self.tab != Tab::Timeline {
            return;
        }
        let windowed = std::mem::replace(&mut self.windowed, true);
        let (tab, basis) = (self.under_tab(), self.basis());
        if self.under.tab != Some(tab) || self.under.basis.as_ref() != Some(&basis) {
            let count = self.touched(&basis);
            self.under = match count > MOVING && !basis.is_everything() {
                true => {
                    let (of, count) = (self.scope_text(basis.scope), counted(count, "event"));
                    let key = self.keymap.first(Action::Show(tab)).unwrap_or("");
                    let of = format!("{of}: {count}, too many to sum on each move; {key} lists them");
                    Table { of, basis: Some(basis), ..Table::default() }
                }
                false => self.rows_of(tab),
            };
            self.under.tab = Some(tab);
        }
        self.windowed = windowed;
    }

    /// Events of threads in the piece of time.
    fn touched(&self, basis: &Basis) -> u64 {
        let (from, to) = basis.scope.time().unwrap_or((0, u64::MAX));
        let lanes = self.opened.model.lanes.iter().filter(|lane| lane.source.is_own());
        lanes.map(|lane| lane.cell(from, to).count).sum()
    }
}
