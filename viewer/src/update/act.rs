//! The effect of each action.

use crate::state::fields::{Help, State};
use crate::state::parts::action::Action;
use crate::state::parts::ask::Ask;
use crate::state::parts::outside::Effect;
use crate::state::parts::tab::Tab;
use crate::state::parts::window::Window;

/// Lines by which the details are scrolled.
const DETAILS: usize = 4;

impl State {
    /// Does one action; returns what is to be done outside.
    pub fn act(&mut self, action: Action) -> Vec<Effect> {
        if std::mem::take(&mut self.legend) && action != Action::Suspend {
            return Vec::new();
        }
        if self.help.is_some() && action != Action::Suspend {
            self.act_in_help(action);
            return Vec::new();
        }
        self.look_from_start(action);
        let scrolled = std::mem::take(&mut self.detail);
        match action {
            // A detail takes up to four lines; drawing knows how many there are.
            Action::DetailsDown => self.detail = (scrolled + DETAILS).min(4 * crate::details::details(self).len()),
            Action::DetailsUp => self.detail = scrolled.saturating_sub(DETAILS),
            Action::Unmark if self.unmark() => return vec![Effect::SaveMarks],
            Action::Unmark => self.say("no marks"),
            Action::Copy if self.tab.is_table() => {
                self.say(format!("copied as CSV: {}", crate::text::counted(self.table.rows.len() as u64, "row")));
                return vec![Effect::Copy(self.table.csv())];
            }
            Action::Copy => match self.current() {
                Some((lane, event)) => {
                    self.say("copied");
                    return vec![Effect::Copy(crate::details::line(self, lane, &event))];
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
            Action::Help => self.help = Some(Help::default()),
            Action::Legend => self.legend = true,
            Action::Redraw => return vec![Effect::Redraw],
            Action::Suspend => return vec![Effect::Suspend],
            Action::Quit => return vec![Effect::Quit],
            _ => {
                let is_known = self.act_on_window(action) || self.act_on_events(action) || self.act_on_view(action);
                debug_assert!(is_known, "nothing is done for {action:?}");
            }
        }
        self.scroll();
        Vec::new()
    }

    /// It is read, scrolled, and left by any other key.
    fn act_in_help(&mut self, action: Action) {
        let page = isize::from(self.size.1.saturating_sub(2).clamp(1, 1000) as i16);
        match action {
            Action::Down => self.scroll_help(1),
            Action::Up => self.scroll_help(-1),
            Action::PageDown | Action::DetailsDown => self.scroll_help(page),
            Action::PageUp | Action::DetailsUp => self.scroll_help(-page),
            _ => self.help = None,
        }
    }

    /// What moves the window, the cursor or the selected row; whether it is that.
    fn act_on_window(&mut self, action: Action) -> bool {
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
            Action::First | Action::Last if self.tab != Tab::Timeline => {
                self.step(if action == Action::First { i64::MIN / 2 } else { i64::MAX / 2 });
            }
            Action::First => self.move_window(self.window.showing(0)),
            Action::Last => self.move_window(self.window.showing(self.window.end - 1)),
            Action::Fit => {
                let event = self.current().map(|(_, event)| (event.begin, event.end));
                match self.selection().or(event) {
                    Some((from, to)) => self.window = self.window.fitting(from, to),
                    None => self.say("no selection, and no event under the cursor"),
                }
            }
            Action::FitAll => {
                self.window = Window { cursor: self.window.cursor, ..self.window }.fitting(0, self.window.end)
            }
            _ => return false,
        }
        true
    }

    /// What goes to an event or a mark, or asks for one; whether it is that.
    fn act_on_events(&mut self, action: Action) -> bool {
        match action {
            Action::NextEvent => self.step_event(true),
            Action::PreviousEvent => self.step_event(false),
            Action::NextError => self.step_failure(true),
            Action::PreviousError => self.step_failure(false),
            Action::NextGap => self.step_gap(true),
            Action::PreviousGap => self.step_gap(false),
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
            Action::Select => self.toggle_selection(),
            Action::SelectEvent => self.select_event(),
            Action::TableScope => self.toggle_window(),
            Action::NextMark if self.tab.is_table() => self.scroll_names(true),
            Action::PreviousMark if self.tab.is_table() => self.scroll_names(false),
            Action::NextMark => self.step_mark(true),
            Action::PreviousMark => self.step_mark(false),
            _ => return false,
        }
        true
    }

    /// What is shown, and in which order; whether it is that.
    fn act_on_view(&mut self, action: Action) -> bool {
        match action {
            Action::FilterMode => {
                self.hides = !self.hides;
                self.say(if self.hides { "the filter hides the rest" } else { "the filter dims the rest" });
            }
            Action::Open => self.open(),
            Action::Split => self.toggle_split(),
            Action::Clear => self.clear(),
            Action::Fold => self.fold(),
            Action::Pin => self.pin(),
            Action::Hide => self.hide(),
            Action::ShowAll => {
                self.arrangement.hidden.clear();
                self.arrange();
            }
            Action::Show(tab) => self.show_tab(tab),
            Action::Lens => self.lens(),
            Action::Align => self.align(),
            Action::Raise => self.shift(true),
            Action::Lower => self.shift(false),
            Action::NextView => self.show_tab(self.tab.next(1)),
            Action::PreviousView => self.show_tab(self.tab.next(Tab::ALL.len() - 1)),
            Action::Sort if !self.table.columns.is_empty() => {
                self.table.sorted = (self.table.sorted + 1) % self.table.columns.len();
                self.table.asked = true;
                self.table.sort();
            }
            Action::Reverse if !self.table.columns.is_empty() => {
                self.table.reversed = !self.table.reversed;
                self.table.asked = true;
                self.table.sort();
            }
            Action::Sort | Action::Reverse => self.say("this view is in time order"),
            _ => return false,
        }
        true
    }

    pub(crate) fn step(&mut self, by: i64) {
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
}
