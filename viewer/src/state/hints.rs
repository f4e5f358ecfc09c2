//! Hints for the footer: the keys that fit the present context. They can also be clicked.

use super::fields::State;
use crate::data::lane::Source;
use crate::state::parts::action::Action;
use crate::state::parts::ask::Ask;
use crate::state::parts::tab::Tab;
use unicode_width::UnicodeWidthStr;

/// Keys, and their effect in a word or two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    pub keys: String,
    pub about: &'static str,
    /// What a click does: what the first of the keys does.
    pub action: Option<Action>,
}

impl Hint {
    fn width(&self) -> usize {
        self.keys.width() + 1 + self.about.width()
    }
}

/// Cells between two hints.
const BETWEEN: usize = 2;

type Line = &'static [(&'static [Action], &'static str)];

const TIMELINE: Line = &[
    (&[Action::NextEvent, Action::PreviousEvent], "event"),
    (&[Action::ZoomIn, Action::ZoomOut], "zoom"),
    (&[Action::PanLeft, Action::PanRight], "move"),
    (&[Action::Fit], "fit it"),
    (&[Action::Search], "search"),
    (&[Action::Filter], "filter"),
    (&[Action::SelectEvent], "select it"),
    (&[Action::Follow], "its work"),
];
const OPERATION: Line = &[
    (&[Action::Follow], "next rank"),
    (&[Action::NextEvent, Action::PreviousEvent], "event"),
    (&[Action::ZoomIn, Action::ZoomOut], "zoom"),
    (&[Action::PanLeft, Action::PanRight], "move"),
    (&[Action::Fit], "fit it"),
    (&[Action::SelectEvent], "select it"),
];
const WELCOME: Line = &[
    (&[Action::Open], "go to"),
    (&[Action::NextEvent, Action::PreviousEvent], "event"),
    (&[Action::Up, Action::Down], "row"),
    (&[Action::ZoomIn, Action::ZoomOut], "zoom"),
    (&[Action::Search], "search"),
    (&[Action::NextError], "failed"),
    (&[Action::Legend], "legend"),
];
const NOTHING: Line = &[
    (&[Action::NextEvent, Action::PreviousEvent], "event"),
    (&[Action::ZoomIn, Action::ZoomOut], "zoom"),
    (&[Action::PanLeft, Action::PanRight], "move"),
    (&[Action::Up, Action::Down], "row"),
    (&[Action::Search], "search"),
    (&[Action::Filter], "filter"),
    (&[Action::Select], "select"),
];
const RANGE: Line = &[
    (&[Action::SelectEvent], "select it"),
    (&[Action::Fit], "fit it"),
    (&[Action::NextEvent, Action::PreviousEvent], "range"),
    (&[Action::ZoomIn, Action::ZoomOut], "zoom"),
    (&[Action::PanLeft, Action::PanRight], "move"),
    (&[Action::Search], "search"),
    (&[Action::DetailsDown], "more"),
];
const SELECTED: Line = &[
    (&[Action::Show(Tab::Kernels)], "its kernels"),
    (&[Action::Show(Tab::Api)], "its calls"),
    (&[Action::Fit], "fit it"),
    (&[Action::Export], "write"),
    (&[Action::DetailsDown], "more"),
    (&[Action::Clear], "clear"),
];
const GROUP: Line = &[
    (&[Action::Fold], "fold"),
    (&[Action::Up, Action::Down], "row"),
    (&[Action::ZoomIn, Action::ZoomOut], "zoom"),
    (&[Action::PanLeft, Action::PanRight], "move"),
    (&[Action::DetailsDown], "more"),
    (&[Action::Search], "search"),
    (&[Action::Select], "select"),
];
const EVENTS: Line = &[
    (&[Action::Up, Action::Down], "event"),
    (&[Action::Open], "show"),
    (&[Action::Filter], "filter"),
    (&[Action::Search], "search"),
    (&[Action::Copy], "copy"),
    (&[Action::NextError], "failed"),
    (&[Action::Clear], "timeline"),
];
const SUMS: Line = &[
    (&[Action::Up, Action::Down], "row"),
    (&[Action::Open], "slowest"),
    (&[Action::Sort], "sort"),
    (&[Action::Reverse], "reverse"),
    (&[Action::TableScope], "window/all"),
    (&[Action::Filter], "filter"),
    (&[Action::Copy], "copy CSV"),
    (&[Action::Clear], "timeline"),
];
const LISTED: Line = &[
    (&[Action::Up, Action::Down], "row"),
    (&[Action::Open], "go to"),
    (&[Action::Sort], "sort"),
    (&[Action::Reverse], "reverse"),
    (&[Action::Copy], "copy CSV"),
    (&[Action::Clear], "timeline"),
];
const MARKS: Line = &[
    (&[Action::Up, Action::Down], "row"),
    (&[Action::Open], "go to"),
    (&[Action::Mark], "edit"),
    (&[Action::Unmark], "remove"),
    (&[Action::Clear], "timeline"),
];

impl State {
    /// Those that fit what the user is at and the screen; the help's last.
    pub fn hints(&self) -> Vec<Hint> {
        let all = match (&self.prompt, self.help.is_some()) {
            (Some(prompt), _) => prompting(prompt.ask),
            (None, true) => plain_hints(&[("/", "find"), ("up down", "scroll"), ("any other key", "close")]),
            (None, false) => self.of_line(self.line()),
        };
        let is_open = self.prompt.is_none() && self.help.is_none();
        let last = if is_open { self.of_line(&[(&[Action::Help], "help")]) } else { Vec::new() };
        let width = usize::from(self.layout.keys.width).saturating_sub(1);
        let reserved: usize = last.iter().map(|hint| hint.width() + BETWEEN).sum();
        let mut used = 0;
        let fitting = all.into_iter().take_while(|hint| {
            used += hint.width() + BETWEEN;
            used + reserved <= width + BETWEEN
        });
        fitting.chain(last).collect()
    }

    /// The hints with the columns in which they begin.
    pub fn footer(&self) -> Vec<(u16, Hint)> {
        let mut x = 1;
        let placed = self.hints().into_iter().map(|hint| {
            let at = x;
            x += hint.width() + BETWEEN;
            (at as u16, hint)
        });
        placed.collect()
    }

    /// What a click into this column of the footer asks for.
    pub(crate) fn hint_at(&self, column: u16, y: u16) -> Option<Action> {
        if !self.layout.keys.contains(column, y) {
            return None;
        }
        let found = self
            .footer()
            .into_iter()
            .find(|(x, hint)| (usize::from(*x)..usize::from(*x) + hint.width()).contains(&usize::from(column)));
        found.and_then(|(_, hint)| hint.action)
    }

    fn line(&self) -> Line {
        match self.tab {
            Tab::Timeline if self.welcome => WELCOME,
            Tab::Timeline if self.selection().is_some() => SELECTED,
            Tab::Timeline if self.is_group(self.row) => GROUP,
            Tab::Timeline => match self.current().map(|(at, _)| &self.opened.model.lanes[at].source) {
                Some(Source::Range { .. }) => RANGE,
                Some(Source::Operations { .. }) => OPERATION,
                Some(_) => TIMELINE,
                None => NOTHING,
            },
            Tab::Events => EVENTS,
            Tab::Kernels | Tab::Api | Tab::Copies | Tab::Ranges => SUMS,
            Tab::Modules | Tab::Findings | Tab::Objects => LISTED,
            Tab::Marks => MARKS,
        }
    }

    fn of_line(&self, line: Line) -> Vec<Hint> {
        let hint = |(actions, about): &(&'static [Action], &'static str)| {
            let keys = actions.iter().filter_map(|action| self.keymap.first(*action));
            let keys: Vec<&str> = keys.map(symbol).collect();
            // Without keys, there is nothing to press.
            (!keys.is_empty()).then(|| Hint { keys: keys.join(" "), about, action: actions.first().copied() })
        };
        line.iter().filter_map(hint).collect()
    }
}

/// A key as the footer has room for it.
fn symbol(key: &str) -> &str {
    match key {
        "pagedown" => "pgdn",
        "pageup" => "pgup",
        other => other,
    }
}

fn plain_hints(all: &[(&'static str, &'static str)]) -> Vec<Hint> {
    all.iter().map(|(keys, about)| Hint { keys: (*keys).to_owned(), about, action: None }).collect()
}

fn prompting(ask: Ask) -> Vec<Hint> {
    let middle: &[(&str, &str)] = match ask {
        Ask::Palette => &[("up down", "choose")],
        _ => &[("up down", "history"), ("left right", "move"), ("ctrl-w", "delete word")],
    };
    let all = [&[("enter", "accept"), ("esc", "cancel")][..], middle, &[("ctrl-u", "clear")]].concat();
    plain_hints(&all)
}
