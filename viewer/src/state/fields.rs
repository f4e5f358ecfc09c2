//! The fields of the state, and helpers for everything that changes it.

use super::filter::{Filter, Search};
use crate::data::event::Event;
use crate::data::lane::{Cell, Lane, Source};
use crate::data::open::Opened;
use crate::state::parts::ask::{Ask, Prompt};
use crate::state::parts::keymap::Keymap;
use crate::state::parts::layout::Layout;
use crate::state::parts::mark::Mark;
use crate::state::parts::overview::{self, Sum};
use crate::state::parts::rows::{Arrangement, Row};
pub(crate) use crate::state::parts::scope::EventPlace;
use crate::state::parts::tab::Tab;
use crate::state::parts::table_rows::Table;
use crate::state::parts::window::Window;
use std::sync::Arc;

/// The help, while it is open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Help {
    /// Lines that were scrolled past.
    pub scroll: usize,
    /// Only what this is in; `is_typed`: keys are letters of it.
    pub filter: String,
    pub(crate) is_typed: bool,
}

/// The state of the screen, and its trace.
pub struct State {
    /// The trace that is shown.
    pub opened: Arc<Opened>,
    /// Keys and their actions.
    pub keymap: Keymap,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// The areas of the screen.
    pub layout: Layout,
    /// The visible stretch of time, with the cursor.
    pub window: Window,
    /// The whole trace, for the width of the lanes.
    pub overview: Vec<Sum>,
    /// The rows of the timeline, from top to bottom.
    pub rows: Vec<Row>,
    /// The selected row, and the first that is on the screen.
    pub row: usize,
    pub(crate) top: usize,
    pub(crate) arrangement: Arrangement,
    /// The arrangement of this size of screen that nobody has changed.
    pub(crate) first: Arrangement,
    /// The selected event.
    pub event: Option<EventPlace>,
    /// Nothing has been chosen yet: the start page is shown.
    pub welcome: bool,
    /// Whether the details pane is shown.
    pub details: bool,
    /// Lines of the details that were scrolled past.
    pub detail: usize,
    /// The current view.
    pub tab: Tab,
    /// The table of the view.
    pub table: Table,
    pub(crate) table_row: usize,
    /// The table below the timeline, where there is room; and whether it is wanted.
    pub under: Table,
    pub(crate) splits: bool,
    /// Where the selection of time began; `fixed`: where it ended, once it has.
    pub anchor: Option<u64>,
    /// Where the selection of time ended, ns.
    pub fixed: Option<u64>,
    /// The event whose time was selected, if one was.
    pub held: Option<EventPlace>,
    /// Tables are of the window, rather than of the whole trace.
    pub windowed: bool,
    /// The user's marks, by time.
    pub marks: Vec<Mark>,
    /// The current search.
    pub search: Option<Search>,
    /// The columns of the overview in which matches begin.
    pub hits: Vec<bool>,
    /// The current filter.
    pub filter: Option<Filter>,
    /// What the filter leaves out is not drawn at all, rather than dimly.
    pub hides: bool,
    /// The open prompt.
    pub prompt: Option<Prompt>,
    /// What was answered, the latest last.
    pub(crate) answers: Vec<(Ask, String)>,
    /// The help, while it is shown.
    pub help: Option<Help>,
    /// What colours and signs mean is shown.
    pub legend: bool,
    pub(crate) mouse: bool,
    /// The shortest gap on a row that g and G stop at, ns.
    pub gap: u64,
    /// What was said last; the next key clears it.
    pub message: String,
    pub(crate) trail: Vec<(Option<EventPlace>, Window, usize)>,
}

impl State {
    /// The lane of the selected row: its own, or the first that is folded into it.
    pub fn lane(&self) -> Option<usize> {
        self.rows.get(self.row)?.lanes.first().copied()
    }

    pub(crate) fn lane_of(&self, at: usize) -> Option<&Lane> {
        self.opened.model.lanes.get(at)
    }

    /// The events that the cursor's column stands for, if it is more than one and none was chosen: their
    /// lane, from when to when the column goes, and what they amount to.
    pub fn crowd(&self) -> Option<(usize, u64, u64, Cell)> {
        let at = self.lane().filter(|_| self.event.is_none() && !self.welcome)?;
        let column = self.window.column(self.window.cursor)?;
        let (from, to) = (self.window.column_begin(column), self.window.column_begin(column + 1));
        let passing = self.filter.as_ref().and_then(|filter| filter.lanes.get(at));
        let lane = passing.map_or_else(|| self.lane_of(at), |passing| Some(&passing.lane))?;
        let cell = lane.cell(from, to);
        (cell.count > 1).then_some((at, from, to, cell))
    }

    pub(crate) fn approach(&mut self, event: &Event) {
        let margin = event.length().max(self.window.columns).saturating_mul(10);
        self.window = self.window.fitting(event.begin.saturating_sub(margin), event.end.saturating_add(margin));
    }

    pub(crate) fn say(&mut self, text: impl Into<String>) {
        self.message = text.into();
    }

    /// The selected event, or else the one under the cursor.
    pub fn current(&self) -> Option<(usize, Event)> {
        let here = || {
            let at = self.lane()?;
            let index = self.lane_of(at)?.event_at(self.window.cursor)?;
            Some((at, self.passing(at, index, true).filter(|found| *found == index)?))
        };
        let (at, index) = self.event.or_else(here)?;
        Some((at, self.lane_of(at).filter(|lane| index < lane.len())?.event(index)))
    }

    /// The event at `index` or the nearest in that direction that passes the filter.
    pub(crate) fn passing(&self, at: usize, index: usize, forward: bool) -> Option<usize> {
        let len = self.lane_of(at)?.len();
        let Some(filter) = &self.filter else { return Some(index).filter(|index| *index < len) };
        let kept = &filter.lanes.get(at)?.index;
        let place = kept.partition_point(|of| (*of as usize) < index);
        match kept.get(place).filter(|of| forward || **of as usize == index) {
            Some(found) => Some(*found as usize),
            None if forward => None,
            None => kept.get(place.checked_sub(1)?).map(|found| *found as usize),
        }
    }

    /// Moves the window or the cursor: no event is selected then but the one under the cursor.
    pub(crate) fn move_window(&mut self, window: Window) {
        self.window = window;
        self.event = None;
    }

    /// The trace that the events of a lane are of.
    pub fn whose(&self, lane: usize) -> &Opened {
        let opened = &self.opened;
        let other = match (opened.model.lanes.get(lane).map(|lane| &lane.source), &opened.second, &opened.job) {
            (Some(Source::Second(_)), Some(second), _) => Some(&second.opened),
            (Some(Source::Peer { process, .. } | Source::Operations { process, .. }), _, Some(job)) => {
                job.peer(*process)
            }
            _ => None,
        };
        other.unwrap_or(opened)
    }

    pub(crate) fn resize(&mut self, width: u16, height: u16) {
        self.size = (width, height);
        let was_first = self.arrangement == self.first;
        self.lay_out();
        self.first = self.first_arrangement();
        if was_first && self.arrangement != self.first {
            self.arrangement = self.first.clone();
            self.arrange();
        }
        self.window = self.window.resized(self.layout.lanes.width.into());
        if self.overview.len() != usize::from(self.layout.overview.width) {
            self.look_over();
        }
        self.scroll();
    }

    pub(crate) fn lay_out(&mut self) {
        self.layout = Layout::new(self.size.0, self.size.1, self.details, self.tab == Tab::Timeline && self.splits);
    }

    /// Finds out where the overview shows matches of the search.
    pub(crate) fn mark_hits(&mut self) {
        let columns = self.layout.overview.width.into();
        self.hits = self.search.as_ref().map_or_else(Vec::new, |search| {
            overview::hits(&self.opened.model, |name| search.hits(name), self.window.end, columns)
        });
    }

    pub(crate) fn look_over(&mut self) {
        self.overview = overview::sums(&self.opened.model, self.window.end, self.layout.overview.width.into());
        self.mark_hits();
    }

    /// Keeps the selected row on the screen.
    pub(crate) fn scroll(&mut self) {
        self.row = self.row.min(self.rows.len().saturating_sub(1));
        let height = usize::from(self.layout.lanes.height).max(1);
        self.top = self.top.min(self.row).max((self.row + 1).saturating_sub(height));
        self.top = self.top.min(self.rows.len().saturating_sub(height.min(self.rows.len())));
    }
}
