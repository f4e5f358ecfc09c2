//! The help: every action with its keys, in groups.

use super::fields::{Help, State};
use crate::state::parts::action::actions;
use crate::state::parts::keymap::Key;
use crate::text;

/// Where what an action does begins: the keys stand left of it.
pub const ABOUT: u16 = 22;

const NOTE: &str = "Keys are set in cutrace/view.toml in the configuration directory: [keys] zoom-in = [\"w\", \"+\"]";

/// Of a job, whose processes stand on one time axis.
const OF_A_JOB: &str = "On a collective, a line connects its beginnings from rank to rank, and labels mark the last rank and the ranks \
                        that have not begun";

/// A line of the help.
pub struct Line {
    /// The keys of the action.
    pub keys: String,
    /// The action, or the heading of a group.
    pub text: String,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Group,
    Action,
    Note,
}

/// As many as it takes on this screen.
pub fn lines(state: &State) -> Vec<Line> {
    let room = |taken: u16| usize::from(state.size.0.saturating_sub(taken)).max(8);
    let line = |keys: &str, text: &str, kind| Line { keys: keys.to_owned(), text: text.to_owned(), kind };
    let wanted = state.help.as_ref().map_or(String::new(), |help| help.filter.to_lowercase());
    let mut all = Vec::new();
    let mut group = "";
    for action in actions() {
        let keys = state.keymap.keys(action.action).join(" ");
        let is_wanted =
            [&keys, action.name, action.about, action.group].iter().any(|part| part.to_lowercase().contains(&wanted));
        if !is_wanted {
            continue;
        }
        if action.group != group {
            group = action.group;
            all.extend((!all.is_empty()).then(|| line("", "", Kind::Note)));
            all.push(line(group, "", Kind::Group));
        }
        let (keys, about) = (text::lines(&keys, usize::from(ABOUT) - 2, 9), text::lines(action.about, room(ABOUT), 9));
        let of = |all: &[&str], n: usize| all.get(n).copied().unwrap_or("").to_owned();
        all.extend((0..keys.len().max(about.len())).map(|n| line(&of(&keys, n), &of(&about, n), Kind::Action)));
    }
    if wanted.is_empty() {
        all.push(line("", "", Kind::Note));
        let notes = state.opened.job.as_ref().map(|_| OF_A_JOB).into_iter().chain([NOTE]);
        let lines = notes.flat_map(|note| text::lines(note, room(2), 9));
        all.extend(lines.map(|note| line("", note, Kind::Note)));
    } else if all.is_empty() {
        all.push(line("", "no action matches in its keys, name or description", Kind::Note));
    }
    all
}

impl State {
    /// Scrolls the help by so many lines, as far as there are some.
    pub(crate) fn scroll_help(&mut self, by: isize) {
        let most = lines(self).len().saturating_sub(usize::from(self.size.1.saturating_sub(2)));
        if let Some(help) = &mut self.help {
            help.scroll = help.scroll.saturating_add_signed(by).min(most);
        }
    }

    /// A key for what is sought in the help: whether it was one.
    pub(crate) fn type_in_help(&mut self, key: &Key) -> bool {
        let Some(help) = &mut self.help else { return false };
        match (key.0.as_str(), help.is_typed) {
            ("/", false) => help.is_typed = true,
            (_, false) => return false,
            ("up" | "down" | "pageup" | "pagedown", true) => return false,
            ("esc", true) => *help = Help::default(),
            ("enter", true) => help.is_typed = false,
            ("ctrl-u", true) => help.filter.clear(),
            ("backspace", true) => match help.filter.pop() {
                Some(_) => {}
                None => help.is_typed = false,
            },
            (_, true) => match key.char() {
                Some(c) if help.filter.len() < 80 && !c.is_control() => help.filter.push(c),
                _ => return false,
            },
        }
        if let Some(help) = &mut self.help {
            help.scroll = 0;
        }
        true
    }
}
