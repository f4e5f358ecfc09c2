//! The views other than the timeline: the one shown, its rows on the screen, and the target of a row.

use super::fields::State;
use crate::state::parts::action::Action;
use crate::state::parts::tab::Tab;
use crate::state::parts::table_rows::{Lead, Value};
use unicode_width::UnicodeWidthStr;

impl State {
    /// Those that fit into the title, one after the other, each with its key: with their names as long as
    /// there is room for them.
    pub fn tabs(&self) -> Vec<(Tab, String)> {
        let width = usize::from(self.layout.title.width);
        let labelled = |name: &dyn Fn(Tab) -> &'static str| -> Vec<(Tab, String)> {
            let label = |tab: &Tab| {
                let key = self.keymap.keys(Action::Show(*tab)).first().copied().unwrap_or("");
                let label = format!(" {key} {}", name(*tab));
                (*tab, format!("{} ", label.trim_end()))
            };
            Tab::ALL.iter().map(label).collect()
        };
        let ways = [
            labelled(&Tab::title),
            labelled(&|tab| if tab == self.tab { tab.title() } else { tab.short() }),
            labelled(&Tab::short),
            labelled(&|tab| if tab == self.tab { tab.short() } else { "" }),
        ];
        let total = |tabs: &[(Tab, String)]| tabs.iter().map(|(_, label)| label.width()).sum::<usize>();
        let [.., least] = &ways;
        let mut taken = 0;
        let mut fits = |label: &str| {
            taken += label.width();
            taken <= width
        };
        let tabs = ways.iter().find(|tabs| total(tabs) <= width).unwrap_or(least).clone();
        tabs.into_iter().take_while(|(_, label)| fits(label)).collect()
    }

    /// The one whose label stands in this column.
    pub(crate) fn tab_at(&self, column: u16) -> Option<Tab> {
        let mut end = 0;
        let mut tabs = self.tabs().into_iter();
        tabs.find_map(|(tab, label)| {
            end += label.width();
            (usize::from(column) < end).then_some(tab)
        })
    }

    pub(crate) fn show_tab(&mut self, tab: Tab) {
        if tab != self.tab {
            self.table_row = 0;
        }
        self.tab = tab;
        self.lay_out();
        let table = self.table_of(tab);
        let before = std::mem::replace(&mut self.table, table);
        // The same table with other rows, of a trace that has grown, stays sorted as it was.
        if before.columns == self.table.columns {
            (self.table.sorted, self.table.reversed, self.table.asked) = (before.sorted, before.reversed, before.asked);
            self.table.sort();
        }
        self.table_row = self.table_row.min(self.table.rows.len().saturating_sub(1));
    }

    pub(crate) fn open(&mut self) {
        match self.tab {
            Tab::Timeline if self.welcome && self.event.is_some() => {
                self.welcome = false;
                if let Some((_, event)) = self.current() {
                    self.window = self.window.fitting(event.begin, event.end);
                }
            }
            Tab::Timeline if self.crowd().is_some() => {
                if let Some((_, from, to, _)) = self.crowd() {
                    self.window = self.window.with_range(from, to);
                }
            }
            Tab::Timeline | Tab::Events => {
                if self.event.is_none() {
                    let here = self.lane().and_then(|at| Some((at, self.lane_of(at)?.event_at(self.window.cursor)?)));
                    self.event = here;
                }
                self.details = !self.details || self.tab == Tab::Events;
                if self.tab == Tab::Events {
                    self.show_tab(Tab::Timeline);
                }
                self.resize(self.size.0, self.size.1);
            }
            _ => self.lead(),
        }
    }

    /// Goes where the row of the table leads.
    fn lead(&mut self) {
        let Some(row) = self.table.rows.get(self.table_row) else { return };
        match (row.lead, row.cells.first()) {
            (Lead::Nowhere, _) => return self.say("no call for this row"),
            (Lead::Slowest(name, call), _) => {
                let found = self.slowest(name, call);
                self.show_tab(Tab::Timeline);
                match (found, call) {
                    (Some(at), _) => self.jump(at),
                    (None, Some(call)) => self.go_to_call(call),
                    (None, None) => {}
                }
            }
            (Lead::Object(made), Some(Value::Text(title))) => {
                let title = title.clone();
                self.look_through(&title);
                self.show_tab(Tab::Timeline);
                self.go_to_call(made);
            }
            (Lead::Call(call) | Lead::Object(call), _) => {
                self.show_tab(Tab::Timeline);
                self.go_to_call(call);
            }
            (Lead::Mark(at), _) => {
                self.show_tab(Tab::Timeline);
                return self.go_to_mark(at);
            }
        }
        if let Some((_, event)) = self.current() {
            self.approach(&event);
        }
    }

    /// One thing at a time, the latest opened first.
    pub(crate) fn clear(&mut self) {
        if self.anchor.is_some() {
            (self.anchor, self.fixed) = (None, None);
        } else if self.tab != Tab::Timeline {
            self.show_tab(Tab::Timeline);
        } else if self.filter.is_some() {
            self.filter = None;
        } else if self.search.is_some() {
            self.search = None;
        } else {
            // Nothing is chosen any more: the start page is shown again.
            self.welcome = self.event.is_none();
            self.event = None;
        }
    }

    /// Rows of the event list: all of the lane, or those that pass the filter.
    pub fn listed(&self) -> usize {
        let Some(at) = self.lane() else { return 0 };
        match &self.filter {
            Some(filter) => filter.lanes.get(at).map_or(0, |lane| lane.index.len()),
            None => self.lane_of(at).map_or(0, |lane| lane.len()),
        }
    }

    /// The event in a row of the list.
    pub fn listed_at(&self, row: usize) -> Option<usize> {
        let at = self.lane()?;
        match &self.filter {
            Some(filter) => filter.lanes.get(at)?.index.get(row).map(|index| *index as usize),
            None => Some(row).filter(|row| self.lane_of(at).is_some_and(|lane| *row < lane.len())),
        }
    }

    /// The row of the list that is selected: the event's, or the next from the cursor on.
    pub fn list_row(&self) -> usize {
        let Some(at) = self.lane() else { return 0 };
        let own = self.event.filter(|(lane, _)| *lane == at).map(|(_, index)| index);
        let Some(lane) = self.lane_of(at) else { return 0 };
        let index = own.unwrap_or_else(|| lane.first_from(self.window.cursor));
        let row = match self.filter.as_ref().and_then(|filter| filter.lanes.get(at)) {
            Some(passing) => passing.index.partition_point(|of| (*of as usize) < index),
            None => index,
        };
        row.min(self.listed().saturating_sub(1))
    }

    pub(crate) fn step_in_list(&mut self, by: i64) {
        let row = (self.list_row() as i64).saturating_add(by).clamp(0, self.listed().max(1) as i64 - 1);
        if let (Some(at), Some(index)) = (self.lane(), self.listed_at(row as usize)) {
            self.select((at, index));
        }
    }

    /// The first row of the table that is on the screen.
    pub fn table_top(&self) -> usize {
        let height = usize::from(self.layout.main.height.saturating_sub(1)).max(1);
        self.table_row.saturating_sub(height / 2).min(self.table.rows.len().saturating_sub(height))
    }

    /// How far below the top of the list the selected event stands.
    pub fn list_offset(&self) -> usize {
        let height = usize::from(self.layout.main.height.saturating_sub(1)).max(1);
        let (row, listed) = (self.list_row(), self.listed());
        row - row.saturating_sub(height / 2).min(listed.saturating_sub(height))
    }
}
