//! The tables of a trace, and the contents of each.

pub(crate) mod busy;
pub(crate) mod columns;
mod csv;
mod lists;
pub(crate) mod piece;
pub(crate) mod sums;

use super::fields::State;
use crate::data::open::Opened;
use crate::state::parts::tab::Tab;
pub use crate::state::parts::table_rows::{Lead, Line, Table, Value};
use piece::Piece;

impl Table {
    /// Of the trace alone: see [`State::table_of`].
    pub fn whole_trace(tab: Tab, opened: &Opened) -> Table {
        let (model, second) = (&opened.model, opened.second.as_deref());
        let mut table = match (tab, second) {
            (Tab::Api | Tab::Kernels, Some(second)) => sums::compared(tab, model, &second.opened.model),
            (Tab::Kernels | Tab::Copies | Tab::Api | Tab::Ranges, _) => {
                sums::table(tab, model, &sums::whole(tab, model))
            }
            (Tab::Modules, _) => lists::modules(model),
            (Tab::Findings, _) => lists::findings(opened.findings(), opened.is_live()),
            (Tab::Objects, _) => opened.lives().map_or_else(Table::default, |lives| lists::objects(opened, lives)),
            (Tab::Timeline | Tab::Events | Tab::Marks, _) => Table::default(),
        };
        table.sort();
        table
    }
}

impl State {
    /// Of what is selected, in the window or passes the filter, as far as the table can tell.
    pub fn table_of(&self, tab: Tab) -> Table {
        let mut table = self.rows_of(tab);
        if let Some(basis) = &table.basis {
            table.busy = busy::lines(&self.opened, basis.scope, busy::ASKED);
        }
        table
    }

    /// The table without how busy devices were.
    pub(crate) fn rows_of(&self, tab: Tab) -> Table {
        let basis = self.basis();
        let is_sum = matches!(tab, Tab::Kernels | Tab::Copies | Tab::Api | Tab::Ranges);
        let is_compared = self.opened.second.is_some() && matches!(tab, Tab::Api | Tab::Kernels);
        let mut table = match tab {
            Tab::Marks => lists::marks(&self.marks),
            _ if !is_sum || is_compared || basis.is_everything() => Table::whole_trace(tab, &self.opened),
            _ => {
                let piece = Piece::new(&self.opened, self.filter.as_ref(), basis.scope);
                let mut table = sums::table(tab, &self.opened.model, &piece.sums(tab));
                table.sort();
                table
            }
        };
        table.of = match tab {
            _ if is_compared => "of both whole traces".into(),
            Tab::Marks => String::new(),
            _ if is_sum => self.scope_text(basis.scope),
            _ => "of the whole trace".into(),
        };
        if is_sum {
            table.basis = Some(basis);
        }
        table
    }
}
