//! What the viewer shows and how input changes it. Nothing here knows a terminal: [`State::update`] takes an input and
//! answers with what is to be done outside.

pub mod action;
pub mod command;
pub mod filter;
pub mod keymap;
pub mod layout;
pub mod overview;
mod prompt;
pub mod rows;
pub mod select;
pub mod table;
pub mod travel;
pub mod window;

use crate::data::compare;
use crate::data::event::Event;
use crate::data::lane::Source;
use crate::data::lives::{Life, Lives};
use crate::data::open::Opened;
use crate::text::counted;
use action::Action;
use filter::{Filter, Search};
use keymap::{Key, Keymap};
use layout::Layout;
use overview::Sum;
pub use prompt::{Ask, Prompt};
use rows::{Arrangement, Id, Row};
use select::Mark;
use std::sync::Arc;
use table::{Tab, Table, Value};
use travel::At;
use window::Window;

/// `stream#3`, without the name that a function has besides.
fn plain(lives: &Lives, life: &Life) -> String {
    lives.title(life).split(':').next().unwrap_or_default().into()
}

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
    /// Names of objects, once they are known.
    pub lives: Option<Arc<Lives>>,
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
    pub help: Option<u16>,
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
            lives: None,
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
        self.window = self.window.ended(opened.summary().end.saturating_add(1));
        self.opened = opened;
        // Lanes and events may stand elsewhere now.
        let call = self.event.take().map(|_| ());
        let filter = self.filter.take().map(|filter| filter.text);
        let search = self.search.take().map(|search| search.text);
        self.search = search.and_then(|text| Search::new(&text, &self.opened.model).ok());
        self.filter = filter.and_then(|text| Filter::new(&text, &self.opened, self.lives.as_deref()).ok());
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

    pub fn act(&mut self, action: Action) -> Vec<Effect> {
        // Help is read, scrolled, and left by any other key.
        if let Some(scroll) = self.help {
            self.help = match action {
                Action::Down => Some(scroll.saturating_add(1)),
                Action::Up => Some(scroll.saturating_sub(1)),
                Action::PageDown => Some(scroll.saturating_add(10)),
                Action::PageUp => Some(scroll.saturating_sub(10)),
                Action::Quit | Action::Suspend => scroll.into(),
                _ => {
                    return {
                        self.help = None;
                        Vec::new()
                    };
                }
            };
            if !matches!(action, Action::Quit | Action::Suspend) {
                return Vec::new();
            }
        }
        let is_timeline = self.tab == Tab::Timeline;
        match action {
            Action::ZoomIn => self.window = self.window.zoomed(0.5),
            Action::ZoomOut => self.window = self.window.zoomed(2.0),
            Action::PanLeft => self.move_window(Window::panned(self.window, -0.1)),
            Action::PanRight => self.move_window(Window::panned(self.window, 0.1)),
            Action::Left => self.move_window(self.window.stepped(-1)),
            Action::Right => self.move_window(self.window.stepped(1)),
            Action::PageLeft => self.move_window(self.window.panned(-0.25)),
            Action::PageRight => self.move_window(self.window.panned(0.25)),
            Action::Up => self.step(-1),
            Action::Down => self.step(1),
            Action::PageUp => self.step(-i64::from(self.layout.main.height.max(2) - 1)),
            Action::PageDown => self.step(i64::from(self.layout.main.height.max(2) - 1)),
            Action::First | Action::Last if !is_timeline => {
                self.step(if action == Action::First { i64::MIN / 2 } else { i64::MAX / 2 });
            }
            Action::First => self.move_window(self.window.showing(0)),
            Action::Last => self.move_window(self.window.showing(self.window.end - 1)),
            Action::Fit => {
                let event = self.current().map(|(_, event)| (event.begin, event.end));
                match self.selection().or(event) {
                    Some((from, to)) => self.window = self.window.fitting(from, to),
                    None => self.say("nothing is selected, and no event is under the cursor"),
                }
            }
            Action::FitAll => {
                self.window = Window { cursor: self.window.cursor, ..self.window }.fitting(0, self.window.end)
            }
            Action::NextEvent => self.step_event(true),
            Action::PreviousEvent => self.step_event(false),
            Action::NextError => self.step_failure(true),
            Action::PreviousError => self.step_failure(false),
            Action::NextGap => self.step_pause(true),
            Action::PreviousGap => self.step_pause(false),
            Action::Follow => self.follow(),
            Action::Back => self.back(),
            Action::NextMatch => self.step_match(true),
            Action::PreviousMatch => self.step_match(false),
            Action::Search => self.ask(Ask::Search),
            Action::Filter => self.ask(Ask::Filter),
            Action::GoTo => self.ask(Ask::GoTo),
            Action::Palette => self.ask(Ask::Palette),
            Action::Mark => self.ask(Ask::Note),
            Action::Export => self.ask(Ask::Export),
            Action::FilterMode => {
                self.hides = !self.hides;
                self.say(if self.hides { "the filter hides the rest" } else { "the filter dims the rest" });
            }
            Action::Select => self.toggle_selection(),
            Action::NextMark => self.step_mark(true),
            Action::PreviousMark => self.step_mark(false),
            Action::Unmark if self.unmark() => return vec![Effect::SaveMarks],
            Action::Unmark => self.say("there is no mark"),
            Action::Open => self.open(),
            Action::Clear => self.clear(),
            Action::Fold => self.fold(),
            Action::Pin => self.pin(),
            Action::Hide => self.hide(),
            Action::ShowAll => {
                self.arrangement.hidden.clear();
                self.arrange();
            }
            Action::Timeline => self.show_tab(Tab::Timeline),
            Action::Events => self.show_tab(Tab::Events),
            Action::Kernels => self.show_tab(Tab::Kernels),
            Action::Api => self.show_tab(Tab::Api),
            Action::Memory => self.show_tab(Tab::Memory),
            Action::Modules => self.show_tab(Tab::Modules),
            Action::Findings => self.show_tab(Tab::Findings),
            Action::Ranges => self.show_tab(Tab::Ranges),
            Action::Objects => self.show_tab(Tab::Objects),
            Action::Lens => self.lens(),
            Action::Align => self.align(),
            Action::Raise => self.shift(true),
            Action::Lower => self.shift(false),
            Action::NextView | Action::PreviousView => {
                let at = Tab::ALL.iter().position(|tab| *tab == self.tab).unwrap_or(0);
                let by = if action == Action::NextView { 1 } else { Tab::ALL.len() - 1 };
                self.show_tab(Tab::ALL[(at + by) % Tab::ALL.len()]);
            }
            Action::Sort if !self.table.columns.is_empty() => {
                self.table.sorted = (self.table.sorted + 1) % self.table.columns.len();
                self.table.sort();
            }
            Action::Reverse if !self.table.columns.is_empty() => {
                self.table.reversed = !self.table.reversed;
                self.table.sort();
            }
            Action::Sort | Action::Reverse => self.say("this view is in the order of time"),
            Action::Copy => match self.current() {
                Some((_, event)) => {
                    self.say("copied");
                    return vec![Effect::Copy(crate::details::line(self, &event))];
                }
                None => self.say("no event under the cursor"),
            },
            Action::CopyCommand => {
                let line = self.command();
                self.say(format!("copied: {line}"));
                return vec![Effect::Copy(line)];
            }
            Action::Mouse => {
                self.mouse = !self.mouse;
                self.say(if self.mouse { "mouse on: shift-drag selects text" } else { "mouse off" });
                return vec![Effect::Mouse(self.mouse)];
            }
            Action::Help => self.help = Some(0),
            Action::Suspend => return vec![Effect::Suspend],
            Action::Quit => return vec![Effect::Quit],
        }
        self.scroll();
        Vec::new()
    }

    /// Moves the window or the cursor: no event is selected then but the one under the cursor.
    fn move_window(&mut self, window: Window) {
        self.window = window;
        self.event = None;
    }

    fn step(&mut self, by: i64) {
        let moved = |at: usize, len: usize| (at as i64).saturating_add(by).clamp(0, len.max(1) as i64 - 1) as usize;
        match self.tab {
            Tab::Timeline => {
                self.row = moved(self.row, self.rows.len());
                self.event = None;
            }
            Tab::Events => self.step_in_list(by),
            _ => self.table_row = moved(self.table_row, self.table.rows.len()),
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

    fn step_in_list(&mut self, by: i64) {
        let row = (self.list_row() as i64).saturating_add(by).clamp(0, self.listed().max(1) as i64 - 1);
        if let (Some(at), Some(index)) = (self.lane(), self.listed_at(row as usize)) {
            self.select((at, index));
        }
    }

    fn open(&mut self) {
        match self.tab {
            Tab::Timeline | Tab::Events => {
                if self.event.is_none() {
                    let here = self.lane().and_then(|at| Some((at, self.lane_of(at)?.under(self.window.cursor)?)));
                    self.event = here;
                }
                self.details = !self.details || self.tab == Tab::Events;
                if self.tab == Tab::Events {
                    self.show_tab(Tab::Timeline);
                }
                self.resize(self.size.0, self.size.1);
            }
            _ => {
                let call = self.table.calls.get(self.table_row).copied().flatten();
                let name = self.table.names.get(self.table_row).copied();
                let object = match self.table.rows.get(self.table_row).and_then(|row| row.first()) {
                    Some(Value::Text(title)) if self.tab == Tab::Objects => Some(title.clone()),
                    _ => None,
                };
                if let Some(title) = object {
                    self.look_through(&title);
                }
                let slowest = name.and_then(|name| self.slowest(name, call));
                match (slowest, call) {
                    (Some(at), _) => {
                        self.show_tab(Tab::Timeline);
                        self.jump(at);
                    }
                    (None, Some(call)) => {
                        self.show_tab(Tab::Timeline);
                        self.go_to_call(call);
                    }
                    (None, None) => return self.say("this row leads to no call"),
                }
                if let Some((_, event)) = self.current() {
                    self.approach(&event);
                }
            }
        }
    }

    /// One thing at a time, the latest opened first.
    fn clear(&mut self) {
        if self.anchor.is_some() {
            (self.anchor, self.fixed) = (None, None);
        } else if self.tab != Tab::Timeline {
            self.show_tab(Tab::Timeline);
        } else if self.filter.is_some() {
            self.filter = None;
        } else if self.search.is_some() {
            self.search = None;
        } else {
            self.event = None;
        }
    }

    pub(crate) fn show_tab(&mut self, tab: Tab) {
        if tab != self.tab {
            self.table_row = 0;
        }
        self.tab = tab;
        self.table = Table::of(tab, &self.opened, self.lives.as_deref());
        self.table.sort();
        self.table_row = self.table_row.min(self.table.rows.len().saturating_sub(1));
    }

    fn arrange(&mut self) {
        let id = self.rows.get(self.row).map(|row| row.id);
        self.rows = rows::rows(&self.opened.model, &self.arrangement);
        let same = id.and_then(|id| self.rows.iter().position(|row| row.id == id));
        self.row = same.unwrap_or(self.row.min(self.rows.len().saturating_sub(1)));
        self.scroll();
    }

    fn fold(&mut self) {
        let Some(row) = self.rows.get(self.row) else { return };
        if row.folded.is_none() {
            return self.say("nothing to fold here");
        }
        let id = row.id;
        if !self.arrangement.folded.remove(&id) {
            self.arrangement.folded.insert(id);
        }
        self.arrange();
    }

    /// Makes the lane's row one that is shown.
    fn unfold(&mut self, lane: usize) {
        if !self.rows.iter().any(|row| row.is_of(lane)) {
            let (folded, hidden) =
                (std::mem::take(&mut self.arrangement.folded), std::mem::take(&mut self.arrangement.hidden));
            // Only what is in the way is opened.
            for id in folded {
                self.arrangement.folded.insert(id);
                let rows = rows::rows(&self.opened.model, &self.arrangement);
                if !rows.iter().any(|row| row.is_of(lane)) {
                    self.arrangement.folded.remove(&id);
                }
            }
            for id in hidden {
                self.arrangement.hidden.insert(id);
                let rows = rows::rows(&self.opened.model, &self.arrangement);
                if !rows.iter().any(|row| row.is_of(lane)) {
                    self.arrangement.hidden.remove(&id);
                }
            }
            self.arrange();
        }
    }

    /// Moves the row, with what is folded under it, past its neighbour.
    fn shift(&mut self, up: bool) {
        let Some(id) = self.rows.get(self.row).map(|row| row.id) else { return };
        if let Some(at) = self.arrangement.pinned.iter().position(|pinned| *pinned == id) {
            let other = if up { at.checked_sub(1) } else { Some(at + 1) };
            match other.filter(|other| *other < self.arrangement.pinned.len()) {
                Some(other) => self.arrangement.pinned.swap(at, other),
                None => return self.say("no pinned row on that side"),
            }
            return self.arrange();
        }
        // Moved back, it was not moved.
        if self.arrangement.moved.last() == Some(&(id, !up)) {
            self.arrangement.moved.pop();
        } else {
            self.arrangement.moved.push((id, up));
        }
        self.arrange();
    }

    /// Lets pass only what names an object; the timeline dims the rest.
    fn look_through(&mut self, title: &str) {
        let text = format!("uses:{title}");
        match Filter::new(&text, &self.opened, self.lives.as_deref()) {
            Ok(filter) => {
                let told = self.lives.as_deref().and_then(|lives| {
                    let life = lives.titled(title)?;
                    let late = crate::data::uses::uses(&self.opened, lives, life).ok()?.after;
                    let count = counted(filter.count, "call");
                    Some(match late.as_slice() {
                        [] => format!("{count} name {title}; esc lets all pass"),
                        [first, ..] => {
                            format!("{count} name {title}, {} of them after its end: {first} first", late.len())
                        }
                    })
                });
                self.filter = Some(filter);
                told.into_iter().for_each(|told| self.say(told));
            }
            Err(wrong) => self.say(wrong),
        }
    }

    /// Looks through the objects that the current call names, one after the other.
    fn lens(&mut self) {
        let Some((_, event)) = self.current() else { return self.say("no event under the cursor") };
        let Some(lives) = self.lives.clone() else { return self.say("the names of objects are still being read") };
        let titles: Vec<String> =
            crate::details::objects_of(self, event.call).iter().map(|l| plain(&lives, l)).collect();
        let now = self.filter.as_ref().and_then(|filter| filter.text.strip_prefix("uses:"));
        let next = now.and_then(|now| titles.iter().position(|title| title == now)).map_or(0, |at| at + 1);
        match titles.get(next) {
            Some(title) => self.look_through(&title.clone()),
            None if titles.is_empty() => self.say("this call names no object that the trace saw made"),
            None => {
                self.filter = None;
                self.say("all pass again");
            }
        }
    }

    /// Two traces: the current call and the one that it belongs to begin together from now on.
    fn align(&mut self) {
        let Some(second) = &self.opened.second else { return self.say("there is no second trace: view FIRST SECOND") };
        let Some((lane, event)) = self.current() else { return self.say("no event under the cursor") };
        let pair = match self.opened.model.lanes[lane].source {
            Source::Second(_) => second.of_second(event.call).map(|call| (call, event.call)),
            _ => second.of_first(event.call).map(|call| (event.call, call)),
        };
        let Some((first, other)) = pair else { return self.say("the other trace has no such call here") };
        if let Some(opened) = compare::aligned(&self.opened, first, other) {
            self.reload(Arc::new(opened));
            self.say(format!("call {first} and the second's call {other} begin together"));
        }
    }

    /// The names of objects have become known.
    pub fn know(&mut self, lives: Arc<Lives>) {
        self.lives = Some(lives);
        if self.tab == Tab::Objects {
            self.show_tab(Tab::Objects);
        }
    }

    fn pin(&mut self) {
        let Some(id) = self.rows.get(self.row).map(|row| row.id) else { return };
        match self.arrangement.pinned.iter().position(|pinned| *pinned == id) {
            Some(at) => {
                self.arrangement.pinned.remove(at);
            }
            None => self.arrangement.pinned.push(id),
        }
        self.arrange();
    }

    fn hide(&mut self) {
        let Some(id) = self.rows.get(self.row).map(|row| row.id) else { return };
        if matches!(id, Id::Process | Id::Device(_) | Id::Context(..)) {
            return self.say("groups are folded, with space; lanes can be hidden");
        }
        self.arrangement.hidden.insert(id);
        self.arrange();
        self.say(format!("{} hidden; Z shows all", crate::text::counted(self.arrangement.hidden.len() as u64, "lane")));
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

    fn time_at(&self, x: u16) -> u64 {
        let column = u64::from(x.saturating_sub(self.layout.lanes.x)).min(self.window.columns - 1);
        self.window.at(column)
    }

    fn press(&mut self, x: u16, y: u16) {
        self.message.clear();
        if self.help.take().is_some() || self.prompt.take().is_some() {
            return;
        }
        let layout = self.layout;
        if layout.overview.contains(x, y) {
            let column = u64::from(x - layout.overview.x);
            let time =
                (u128::from(self.window.end) * u128::from(column) / u128::from(layout.overview.width.max(1))) as u64;
            let half = self.window.width() / 2;
            let from = time.saturating_sub(half).min(self.window.end.saturating_sub(self.window.width()));
            let width = self.window.width();
            self.move_window(
                Window { from, to: from + width, cursor: from + width / 2, ..self.window }.resized(self.window.columns),
            );
            return;
        }
        if self.tab != Tab::Timeline {
            if layout.main.contains(x, y) && y > layout.main.y {
                let row = usize::from(y - layout.main.y - 1);
                match self.tab {
                    Tab::Events => self.step_in_list(row as i64 - self.list_offset() as i64),
                    _ => self.table_row = (self.table_top() + row).min(self.table.rows.len().saturating_sub(1)),
                }
            }
            return;
        }
        if layout.main.contains(x, y) {
            let row = self.top + usize::from(y - layout.main.y);
            if row < self.rows.len() {
                self.row = row;
                self.event = None;
            }
            if x < layout.lanes.x {
                return;
            }
        }
        if layout.lanes.contains(x, y) || layout.axis.contains(x, y) {
            let time = self.time_at(x);
            self.move_window(Window { cursor: time, ..self.window });
            self.event = self.lane().and_then(|at| {
                let lane = self.lane_of(at)?;
                // The event that the column shows: its longest.
                let longest = lane.cell(time, time.saturating_add(self.window.step())).longest?;
                Some((at, longest as usize))
            });
            (self.anchor, self.fixed) = (Some(self.snapped(time)), None);
        }
    }

    fn drag(&mut self, x: u16, _y: u16) {
        if self.anchor.is_some() && self.fixed.is_none() && self.tab == Tab::Timeline {
            let time = self.time_at(x);
            self.move_window(Window { cursor: time, ..self.window });
        }
    }

    fn wheel(&mut self, x: u16, y: u16, up: bool, pan: bool) {
        if self.tab != Tab::Timeline || !(self.layout.lanes.contains(x, y) || self.layout.axis.contains(x, y)) {
            self.step(if up { -3 } else { 3 });
            return self.scroll();
        }
        if pan {
            return self.move_window(self.window.panned(if up { -0.1 } else { 0.1 }));
        }
        let time = self.time_at(x);
        self.move_window(Window { cursor: time, ..self.window }.zoomed(if up { 0.8 } else { 1.25 }));
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
