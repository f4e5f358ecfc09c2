//! The scope of the tables, derived from the user's selection.

use super::fields::{EventPlace, State};
use super::table::Table;
use crate::data::lane::Source;
use crate::state::parts::scope::{Basis, Scope};
use crate::state::parts::tab::Tab;
use crate::text::{counted, duration, moment};

impl State {
    /// What tables are of: the selection if there is one, or else the window or the whole trace.
    pub fn scope(&self) -> Scope {
        match (self.selection(), self.windowed) {
            (Some((from, to)), _) => match self.selected_range() {
                Some(at) => Scope::Range(at, from, to),
                None => Scope::Selection(from, to),
            },
            (None, true) if (self.window.from, self.window.to) != (0, self.window.end) => {
                Scope::Window(self.window.from, self.window.to)
            }
            (None, _) => Scope::Whole,
        }
    }

    pub(crate) fn basis(&self) -> Basis {
        Basis { scope: self.scope(), filter: self.filter.as_ref().map(|filter| filter.text.clone()) }
    }

    /// The range that was selected as one, as long as the selection is what it was then.
    fn selected_range(&self) -> Option<EventPlace> {
        let (at, index) = self.held?;
        let lane = self.lane_of(at).filter(|lane| index < lane.len())?;
        let is_range = matches!(lane.source, Source::Range { .. });
        (is_range && self.selection() == Some((lane.begin[index], lane.end(index)))).then_some((at, index))
    }

    /// The NVTX range that takes exactly this time, the outermost if there are several.
    pub(crate) fn range_of(&self, from: u64, to: u64) -> Option<EventPlace> {
        let lanes = self.opened.model.lanes.iter().enumerate();
        let mut ranges = lanes.filter(|(_, lane)| matches!(lane.source, Source::Range { .. }));
        ranges.find_map(|(at, lane)| {
            let begun = (lane.first_at(from)..lane.len()).take_while(|index| lane.begin[*index] == from);
            Some((at, begun.into_iter().find(|index| lane.end(*index) == to)?))
        })
    }

    /// Selects the time of the current event: of a range all that it holds.
    pub(crate) fn select_event(&mut self) {
        let Some((at, event)) = self.current() else { return self.say("no event under the cursor") };
        if event.begin == event.end {
            return self.say("this event has no duration");
        }
        let index = self.event.map(|(_, index)| index).or_else(|| self.lane_of(at)?.event_at(event.begin));
        (self.anchor, self.fixed) = (Some(event.begin), Some(event.end));
        self.held = index.map(|index| (at, index));
        let key = self
            .keymap
            .keys(crate::state::parts::action::Action::Show(Tab::Kernels))
            .first()
            .map(|key| (*key).to_owned());
        let (what, took) = (self.opened.model.name(event.name), duration(event.length()));
        let key = key.map_or(String::new(), |key| format!("; {key} lists its kernels"));
        self.say(format!("{what} is selected, {took}{key}"));
    }

    /// From tables of the whole trace to tables of the window, and back.
    pub(crate) fn toggle_window(&mut self) {
        if self.selection().is_some() {
            return self.say("tables show the selection; esc clears it");
        }
        self.windowed = !self.windowed;
        self.say(if self.windowed { "tables show the window" } else { "tables show the whole trace" });
    }

    /// What a table is of, for its title.
    pub(crate) fn scope_text(&self, scope: Scope) -> String {
        let piece = |from: u64, to: u64| {
            let step = self.window.step().min((to - from).max(1));
            format!("{} from {}", duration(to - from), moment(from, step))
        };
        let of = match scope {
            Scope::Whole => "of the whole trace".to_owned(),
            Scope::Window(from, to) => format!("in the window, {}", piece(from, to)),
            Scope::Selection(from, to) => format!("of the selection, {}", piece(from, to)),
            Scope::Range((lane, index), from, to) => {
                let name = self.lane_of(lane).and_then(|lane| lane.name.get(index)).copied();
                let name = name.map_or("?", |name| self.opened.model.name(name));
                format!("of range {name}, {}", piece(from, to))
            }
        };
        match &self.filter {
            Some(filter) => format!("{of}, filter {}", crate::text::tame(&filter.text)),
            None => of,
        }
    }

    /// Makes tables again if what they are of has changed.
    pub(crate) fn refresh(&mut self) {
        if self.tab.is_table() && self.table.basis.as_ref().is_some_and(|basis| *basis != self.basis()) {
            self.show_tab(self.tab);
        }
        self.refresh_under();
    }

    /// The title of a table: what it lists, of what, and how much.
    pub fn table_title(&self, table: &Table) -> String {
        let rows = table.rows.len() as u64;
        let what = match table.tab.unwrap_or(self.tab) {
            Tab::Api => "API functions",
            tab => tab.title(),
        };
        let of = if table.of.is_empty() { String::new() } else { format!(" {}", table.of) };
        format!("{what}{of}: {}", counted(rows, "row"))
    }
}
