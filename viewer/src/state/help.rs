//! The help: every action with its keys, and what the pictures mean.

use super::action::actions;
use super::fields::State;
use crate::text;

/// Where what an action does begins: the keys stand left of it.
pub const ABOUT: u16 = 22;

const NOTES: &[&str] = &[
    "",
    "Lanes of threads show calls: solid. Lanes with ~ show work of a stream, hatched: from its submission to the next \
     one, or to the wait that told of its end. When it ran in between, the trace does not say. Of a trace with device \
     times (cutrace replay --profile) lanes of streams are solid: work as a replay measured it, as long after its \
     recorded call as it came after the replay's, or behind the work before it; or (record --gpu-times) as it was.",
    "Colours: green launches, blue copies, yellow waits and questions, purple memory and modules, red failures.",
    "Keys are set in cutrace/view.toml in the configuration directory: [keys] zoom-in = [\"w\", \"+\"]",
];

pub struct Line {
    pub keys: String,
    pub text: String,
    pub is_note: bool,
}

/// As many as it takes on this screen.
pub fn lines(state: &State) -> Vec<Line> {
    let room = |taken: u16| usize::from(state.size.0.saturating_sub(taken)).max(8);
    let line = |keys: &str, text: &str, is_note| Line { keys: keys.to_owned(), text: text.to_owned(), is_note };
    let of_actions = actions().flat_map(|action| {
        let keys = state.keymap.keys(action.action).join(" ");
        let (keys, about) = (text::lines(&keys, usize::from(ABOUT) - 2, 9), text::lines(action.about, room(ABOUT), 9));
        let of = |all: &[&str], n: usize| all.get(n).copied().unwrap_or("").to_owned();
        let rows = 0..keys.len().max(about.len());
        rows.map(|n| line(&of(&keys, n), &of(&about, n), false)).collect::<Vec<_>>()
    });
    let notes = NOTES.iter().flat_map(|note| text::lines(note, room(2), 99)).map(|note| line("", note, true));
    of_actions.chain(notes).collect()
}

impl State {
    /// Scrolls the help by so many lines, as far as there are some.
    pub(super) fn scroll_help(&mut self, by: isize) {
        let most = lines(self).len().saturating_sub(usize::from(self.size.1.saturating_sub(1)));
        self.help = self.help.map(|scroll| scroll.saturating_add_signed(by).min(most));
    }
}
