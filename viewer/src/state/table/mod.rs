//! Tables: which there are of a trace, and what is in each.

mod listed;
pub mod placed;
pub(super) mod rows;
mod sums;

use super::fields::State;
use super::tab::Tab;
use crate::data::open::Opened;
pub use rows::{Lead, Line, Table, Value};

impl Table {
    /// Of the trace alone: see [`State::table_of`].
    pub fn of(tab: Tab, opened: &Opened) -> Table {
        let (model, second) = (&opened.model, opened.second.as_deref());
        let mut table = match (tab, second) {
            (Tab::Api | Tab::Kernels, Some(second)) => sums::compared(tab, model, &second.opened.model),
            (Tab::Kernels | Tab::Copies, _) if model.summary.timing.is_some() => sums::timed(tab, model),
            (Tab::Kernels | Tab::Copies | Tab::Api | Tab::Ranges, _) => sums::of_host(tab, model),
            (Tab::Modules, _) => listed::modules(model),
            (Tab::Findings, _) => listed::findings(opened.findings(), opened.is_live()),
            (Tab::Objects, _) => opened.lives().map_or_else(Table::default, |lives| listed::objects(opened, lives)),
            (Tab::Timeline | Tab::Events | Tab::Marks, _) => Table::default(),
        };
        table.sort();
        table
    }
}

impl State {
    pub(super) fn table_of(&self, tab: Tab) -> Table {
        match tab {
            Tab::Marks => listed::marks(&self.marks),
            tab => Table::of(tab, &self.opened),
        }
    }
}
