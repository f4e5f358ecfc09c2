//! What the viewer shows and how input changes it. Nothing here knows a terminal: [`State::update`] takes an input and
//! answers with what is to be done outside.

mod act;
pub mod action;
pub mod arrange;
pub mod command;
pub mod filter;
pub mod help;
pub mod keymap;
pub mod layout;
mod lens;
mod listing;
pub mod overview;
mod pointer;
mod prompt;
pub mod rows;
pub mod select;
pub mod tab;
pub mod table;
pub mod travel;
pub mod window;

use crate::data::event::Event;
use crate::data::lane::Source;
use crate::data::open::Opened;
use filter::{Filter, Search};
use keymap::{Key, Keymap};
use layout::Layout;
use overview::Sum;
pub use prompt::{Ask, Prompt};
use rows::{Arrangement, Row};
use select::Mark;
use std::sync::Arc;
use tab::Tab;
use table::Table;
use travel::At;
use window::Window;

/// Something that happened outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Key(Key),
    Resize(u16, u16),
    /// A press of the main button, a drag with it held, its release.
    Press(u16, u16),
    Drag(u16, u16),
    Release,
    /// The wheel at a place, up or down; with shift or control held it pans.
    Wheel {
        x: u16,
        y: u16,
        up: bool,
        pan: bool,
    },
    /// Text that was pasted.
    Paste(String),
}

/// Something to be done outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Quit,
    Suspend,
    /// All of the screen, whatever stands there.
    Redraw,
    /// To the terminal's clipboard.
    Copy(String),
    SaveMarks,
    /// What is selected, or else in the window, to this file.
    Export {
        path: String,
        from: u64,
        to: u64,
    },
    Mouse(bool),
}

pub struct State {
    pub opened: Arc<Opened>,
    pub keymap: Keymap,
    pub size: (u16, u16),
    pub layout: Layout,
    pub window: Window,
    /// The whole trace, for the width of the lanes.
    pub overview: Vec<Sum>,
    pub rows: Vec<Row>,
    /// The selected row, and the first that is on the screen.
    pub row: usize,
    pub top: usize,
    pub arrangement: Arrangement,
    /// The selected event.
    pub event: Option<At>,
    pub details: bool,
    /// Lines of the details that were scrolled past.
    pub detail: usize,
    pub tab: Tab,
    pub table: Table,
    pub table_row: usize,
    /// Where the selection of time began; `fixed`: where it ended, once it has.
    pub anchor: Option<u64>,
    pub fixed: Option<u64>,
    pub marks: Vec<Mark>,
    pub search: Option<Search>,
    pub filter: Option<Filter>,
    /// What the filter leaves out is not drawn at all, rather than dimly.
    pub hides: bool,
    pub prompt: Option<Prompt>,
    /// The help is open, scrolled by this many lines.
    pub help: Option<usize>,
    pub mouse: bool,
    /// From which length on a pause on a lane is stopped at, ns.
    pub pause: u64,
    /// What was said last; the next key clears it.
    pub message: String,
    trail: Vec<(Option<At>, Window, usize)>,
}

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
            arrangement,
            event: None,
            details: true,
            detail: 0,
            tab: Tab::Timeline,
            table: Table::default(),
            table_row: 0,
            anchor: None,
            fixed: None,
            marks: Vec::new(),
            search: None,
            filter: None,
            hides: false,
            prompt: None,
            help: None,
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

    fn approach(&mut self, event: &Event) {
        let margin = event.length().max(self.window.columns).saturating_mul(10);
        self.window = self.window.fitting(event.begin.saturating_sub(margin), event.end.saturating_add(margin));
    }

    pub fn say(&mut self, text: impl Into<String>) {
        self.message = text.into();
    }

    /// The selected event, or else the one under the cursor.
    pub fn current(&self) -> Option<(usize, Event)> {
        let here = || {
            let at = self.lane()?;
            let index = self.lane_of(at)?.under(self.window.cursor)?;
            Some((at, self.passing(at, index, true).filter(|found| *found == index)?))
        };
        let (at, index) = self.event.or_else(here)?;
        Some((at, self.lane_of(at).filter(|lane| index < lane.len())?.event(index)))
    }

    pub fn update(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Key(key) => {
                self.message.clear();
                if self.prompt.is_some() {
                    return self.type_key(&key);
                }
                match self.keymap.action(&key) {
                    Some(action) => return self.act(action),
                    None => self.say(format!("{} asks for nothing; ? shows the keys", key.0)),
                }
            }
            Input::Resize(width, height) => self.resize(width, height),
            Input::Paste(text) => text.chars().filter(|c| !c.is_control()).for_each(|c| self.type_char(c)),
            Input::Press(x, y) => self.press(x, y),
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

    /// Moves the window or the cursor: no event is selected then but the one under the cursor.
    fn move_window(&mut self, window: Window) {
        self.window = window;
        self.event = None;
    }

    /// The trace that the events of a lane are of.
    pub fn whose(&self, lane: usize) -> &Opened {
        let is_second = self.opened.model.lanes.get(lane).is_some_and(|lane| matches!(lane.source, Source::Second(_)));
        match &self.opened.second {
            Some(second) if is_second => &second.opened,
            _ => &self.opened,
        }
    }

    /// The names of objects have become known, or what is worth looking at.
    pub fn learned(&mut self) {
        // A list of findings that is there already stays as it is, with the row that is selected in it.
        if self.tab == Tab::Objects || self.tab == Tab::Findings && self.table.rows.is_empty() {
            self.show_tab(self.tab);
        }
    }

    fn resize(&mut self, width: u16, height: u16) {
        self.size = (width, height);
        self.layout = Layout::of(width, height, self.details);
        self.window = self.window.resized(self.layout.lanes.width.into());
        if self.overview.len() != usize::from(self.layout.overview.width) {
            self.look_over();
        }
        self.scroll();
    }

    fn look_over(&mut self) {
        self.overview = overview::sums(&self.opened.model, self.window.end, self.layout.overview.width.into());
    }

    /// Keeps the selected row on the screen.
    fn scroll(&mut self) {
        self.row = self.row.min(self.rows.len().saturating_sub(1));
        let height = usize::from(self.layout.lanes.height).max(1);
        self.top = self.top.min(self.row).max((self.row + 1).saturating_sub(height));
        self.top = self.top.min(self.rows.len().saturating_sub(height.min(self.rows.len())));
    }
}
