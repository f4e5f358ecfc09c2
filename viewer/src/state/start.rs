//! The first view of a trace: its busiest lane, the longest event there, and the page that sums it up.

use super::fields::{EventPlace, State};
use crate::data::lane::{Lane, Source};
use crate::state::parts::action::Action;
use crate::state::parts::tab::Tab;
use crate::state::parts::window::Window;

/// The state at the start page; a change of any part of it leaves the page.
#[derive(PartialEq)]
pub(crate) struct Stand {
    window: Window,
    row: usize,
    event: Option<EventPlace>,
    anchor: Option<u64>,
    filter: bool,
}

impl State {
    /// Goes to the longest event of the busiest lane: by the times of a device if there are some.
    pub fn start(&mut self) {
        let model = &self.opened.model;
        let timed = model.lanes.iter().any(|lane| matches!(lane.source, Source::Device { .. }));
        let counts = |lane: &Lane| match lane.source {
            Source::Thread { depth: 0, .. } => !timed,
            Source::Device { .. } => timed,
            _ => false,
        };
        let busy = |lane: &Lane| lane.cell(0, u64::MAX).busy;
        let lanes = model.lanes.iter().enumerate().filter(|(_, lane)| counts(lane) && !lane.is_empty());
        let busiest = lanes.max_by_key(|(at, lane)| (busy(lane), std::cmp::Reverse(*at)));
        let longest = busiest.and_then(|(at, lane)| Some((at, lane.cell(0, u64::MAX).longest? as usize)));
        if let Some(longest) = longest {
            self.select(longest);
            self.scroll();
        }
        self.welcome = true;
        self.refresh();
    }

    pub(crate) fn stand(&self) -> Stand {
        let (window, row, event, anchor) = (self.window, self.row, self.event, self.anchor);
        // Another size is not another place.
        let window = Window { columns: 1, ..window };
        Stand { window, row, event, anchor, filter: self.filter.is_some() }
    }

    /// Whoever looks for something before having chosen a place looks from the start of the trace.
    pub(crate) fn look_from_start(&mut self, action: Action) {
        let looks = matches!(action, Action::NextError | Action::NextGap | Action::NextMark | Action::Search);
        if self.welcome && looks && self.tab == Tab::Timeline {
            self.event = None;
            self.window = Window { cursor: self.window.from, ..self.window };
        }
    }
}
