//! The viewer's state: the trace's rows, tables and lists, the selection in them, and the filters. Imports
//! `data/` and `text`; of its folders, `parts/` knows nothing of the others.

pub mod arrange;
pub mod command;
pub(crate) mod fields;
pub mod filter;
pub mod help;
pub(crate) mod hints;
mod lens;
pub mod lines;
mod listing;
pub mod parts;
pub mod select;
mod split;
mod start;
pub mod table;
mod table_scope;
pub(crate) mod travel;

use crate::data::open::Opened;
pub use fields::{Help, State};
use filter::{Filter, Search};
pub use parts::ask::{Ask, Prompt};
use parts::keymap::Keymap;
use parts::layout::Layout;
pub use parts::mark::Mark;
pub use parts::outside::{Effect, Input};
use parts::rows::Arrangement;
use parts::tab::Tab;
use parts::window::Window;
use std::sync::Arc;
use table::Table;

impl State {
    /// The timeline of the whole trace; `size` is columns and rows of the terminal.
    pub fn new(opened: Arc<Opened>, keymap: Keymap, size: (u16, u16)) -> State {
        let arrangement = Arrangement::new(&opened.model);
        let rows = parts::rows::rows(&opened.model, &arrangement);
        let first = rows.iter().position(|row| !row.lanes.is_empty()).unwrap_or(0);
        let mut state = State {
            keymap,
            size,
            layout: Layout::default(),
            window: Window::whole(opened.summary().end.saturating_add(1), 1),
            overview: Vec::new(),
            rows,
            row: first,
            top: 0,
            first: arrangement.clone(),
            arrangement,
            event: None,
            welcome: false,
            details: true,
            detail: 0,
            tab: Tab::Timeline,
            table: Table::default(),
            table_row: 0,
            under: Table::default(),
            splits: true,
            anchor: None,
            fixed: None,
            held: None,
            windowed: false,
            marks: Vec::new(),
            search: None,
            hits: Vec::new(),
            filter: None,
            hides: false,
            prompt: None,
            answers: Vec::new(),
            help: None,
            legend: false,
            mouse: true,
            gap: travel::GAP,
            message: String::new(),
            trail: Vec::new(),
            opened,
        };
        state.resize(size.0, size.1);
        state
    }

    /// Takes the trace as it is now; what was looked at stays.
    pub fn reload(&mut self, opened: Arc<Opened>) {
        let end = opened.summary().end.saturating_add(1);
        // Who looks at the end goes on to do so.
        let is_at_end = self.window.cursor.saturating_add(self.window.step()) >= self.window.end;
        self.window = self.window.ended(end);
        if is_at_end && self.window.from > 0 {
            self.window = self.window.showing(end - 1);
        }
        self.opened = opened;
        // Lanes and events may stand elsewhere now.
        let call = self.event.take().map(|_| ());
        let filter = self.filter.take().map(|filter| filter.text);
        let search = self.search.take().map(|search| search.text);
        self.search = search.and_then(|text| Search::new(&text, &self.opened.model).ok());
        self.filter = filter.and_then(|text| Filter::new(&text, &self.opened).ok());
        self.trail.clear();
        self.look_over();
        self.arrange();
        self.show_tab(self.tab);
        self.under = Table::default();
        if call.is_some() {
            self.event = self.lane().and_then(|at| Some((at, self.lane_of(at)?.event_at(self.window.cursor)?)));
        }
    }

    /// Goes to a place as the prompt takes it, close enough to see a single call.
    pub fn show(&mut self, place: &str) {
        self.go_to(place);
        if let Some((_, event)) = self.current() {
            self.approach(&event);
        }
        self.scroll();
    }

    /// The names of objects have become known, or what is worth looking at.
    pub fn learned(&mut self) {
        // A list of findings that is there already stays as it is, with the row that is selected in it.
        if self.tab == Tab::Objects || self.tab == Tab::Findings && self.table.rows.is_empty() {
            self.show_tab(self.tab);
        }
    }
}
