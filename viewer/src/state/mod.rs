//! What the viewer shows and how input changes it. Nothing here knows a terminal: [`State::update`] takes an
//! input and answers with what is to be done outside.

mod act;
pub mod action;
pub mod arrange;
mod ask;
pub mod command;
mod fields;
pub mod filter;
pub mod help;
pub mod hints;
pub mod keymap;
pub mod layout;
mod lens;
pub mod lines;
mod listing;
mod mark;
mod outside;
pub mod overview;
mod pointer;
mod prompt;
pub mod rows;
pub mod scope;
mod scoped;
pub mod select;
mod split;
mod start;
pub mod tab;
pub mod table;
pub mod travel;
pub mod window;

use crate::data::open::Opened;
pub use ask::{Ask, Prompt};
pub use fields::{Help, State};
use filter::{Filter, Search};
use keymap::Keymap;
use layout::Layout;
pub use mark::Mark;
pub use outside::{Effect, Input};
use rows::Arrangement;
use std::sync::Arc;
use tab::Tab;
use table::Table;
use window::Window;

impl State {
    pub fn new(opened: Arc<Opened>, keymap: Keymap, size: (u16, u16)) -> State {
        let arrangement = Arrangement::new(&opened.model);
        let rows = rows::rows(&opened.model, &arrangement);
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
            pause: travel::PAUSE,
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
            self.event = self.lane().and_then(|at| Some((at, self.lane_of(at)?.under(self.window.cursor)?)));
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

    pub fn update(&mut self, input: Input) -> Vec<Effect> {
        let before = self.stand();
        let effects = self.take(input);
        self.welcome &= before == self.stand();
        self.refresh();
        effects
    }

    fn take(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Key(key) => {
                self.message.clear();
                if self.prompt.is_some() {
                    return self.type_key(&key);
                }
                if self.type_in_help(&key) {
                    return Vec::new();
                }
                match self.keymap.action(&key) {
                    Some(action) => return self.act(action),
                    None => self.say(format!("{} asks for nothing; ? shows the keys", key.0)),
                }
            }
            Input::Resize(width, height) => self.resize(width, height),
            Input::Paste(text) => text.chars().for_each(|c| self.type_char(c)),
            Input::Press(x, y) => match self.hint_at(x, y) {
                Some(action) => return self.act(action),
                None => self.press(x, y),
            },
            Input::Drag(x, y) => self.drag(x, y),
            Input::Release => {
                if self.anchor.is_some() && self.fixed.is_none() {
                    self.fixed = Some(self.snapped(self.window.cursor));
                    if self.selection().is_none() {
                        (self.anchor, self.fixed) = (None, None);
                    }
                }
            }
            Input::Wheel { x, y, up, pan } => self.wheel(x, y, up, pan),
        }
        Vec::new()
    }

    /// The names of objects have become known, or what is worth looking at.
    pub fn learned(&mut self) {
        // A list of findings that is there already stays as it is, with the row that is selected in it.
        if self.tab == Tab::Objects || self.tab == Tab::Findings && self.table.rows.is_empty() {
            self.show_tab(self.tab);
        }
    }
}
