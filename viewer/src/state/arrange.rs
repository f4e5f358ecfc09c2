//! The user's arrangement of the rows: folded, moved, pinned, hidden.

use super::fields::State;
use crate::data::Model;
use crate::state::parts::rows::{self, Arrangement, Id};
use std::fmt;
use std::str::FromStr;

/// A change of a row, named by its number among all rows in their first order, unfolded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step(How, usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    Fold,
    Unfold,
    Up,
    Down,
    Pin,
    Hide,
}

const NAMES: [(How, &str); 6] = [
    (How::Fold, "fold"),
    (How::Unfold, "unfold"),
    (How::Up, "up"),
    (How::Down, "down"),
    (How::Pin, "pin"),
    (How::Hide, "hide"),
];

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let name = NAMES.iter().find(|(how, _)| *how == self.0).map_or("", |(_, name)| name);
        write!(f, "{name}:{}", self.1)
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Step, String> {
        let known = text.split_once(':').and_then(|(name, row)| {
            let (how, _) = NAMES.iter().find(|(_, known)| *known == name)?;
            Some(Step(*how, row.parse().ok()?))
        });
        let names = || NAMES.map(|(_, name)| name).join(", ");
        known.ok_or_else(|| format!("{text:?}: expected one of {} and a row, such as pin:3", names()))
    }
}

const GROUPS: &str = "a group cannot be hidden, only folded (space)";

fn is_group(id: Id) -> bool {
    matches!(id, Id::Process | Id::Device(_) | Id::Context(..))
}

/// The numbers that steps have.
fn numbered(model: &Model) -> Vec<Id> {
    rows::rows(model, &Arrangement::default()).into_iter().map(|row| row.id).collect()
}

impl State {
    /// Whether a row stands for several lanes: it was folded, or those below it are its own.
    pub fn is_group(&self, row: usize) -> bool {
        self.rows.get(row).is_some_and(|row| is_group(row.id) || matches!(row.id, Id::Second | Id::Peer(_)))
    }

    /// The lanes of a row: its own, or those of the rows that stand below it as a group.
    pub fn lanes_of(&self, row: usize) -> Vec<usize> {
        let Some(own) = self.rows.get(row) else { return Vec::new() };
        if !own.lanes.is_empty() || !self.is_group(row) {
            return own.lanes.clone();
        }
        let below = self.rows[row + 1..].iter().take_while(|below| below.level > own.level);
        below.flat_map(|below| below.lanes.iter().copied()).collect()
    }

    /// What makes this arrangement of the first one.
    pub fn steps(&self) -> Vec<Step> {
        let (model, now) = (&self.opened.model, &self.arrangement);
        let first = self.first.clone();
        if *now == first {
            return Vec::new();
        }
        let all = numbered(model);
        let step = |how, id: &Id| Some(Step(how, all.iter().position(|other| other == id)?));
        let folded = now.folded.difference(&first.folded).filter_map(|id| step(How::Fold, id));
        let unfolded = first.folded.difference(&now.folded).filter_map(|id| step(How::Unfold, id));
        let hidden = now.hidden.iter().filter_map(|id| step(How::Hide, id));
        let mut sets: Vec<Step> = folded.chain(unfolded).chain(hidden).collect();
        sets.sort_unstable();
        let moved = now.moved.iter().filter_map(|(id, up)| step(if *up { How::Up } else { How::Down }, id));
        let pinned = now.pinned.iter().filter_map(|id| step(How::Pin, id));
        sets.into_iter().chain(moved).chain(pinned).collect()
    }

    /// Makes an arrangement; of steps with rows that there are not it says so.
    pub(crate) fn take_steps(&mut self, steps: &[Step], beyond: &mut Vec<String>) {
        let all = numbered(&self.opened.model);
        for step @ Step(how, row) in steps {
            let Some(id) = all.get(*row).copied() else {
                beyond.push(format!("--arrange {step}: there are rows 0 to {}", all.len().saturating_sub(1)));
                continue;
            };
            let now = &mut self.arrangement;
            match how {
                How::Fold => _ = now.folded.insert(id),
                How::Unfold => _ = now.folded.remove(&id),
                How::Up => now.moved.push((id, true)),
                How::Down => now.moved.push((id, false)),
                How::Pin if now.pinned.contains(&id) => {}
                How::Pin => now.pinned.push(id),
                How::Hide if is_group(id) => beyond.push(format!("--arrange {step}: {GROUPS}")),
                How::Hide => _ = now.hidden.insert(id),
            }
        }
        self.arrange();
    }

    pub(crate) fn arrange(&mut self) {
        let id = self.rows.get(self.row).map(|row| row.id);
        self.rows = rows::rows(&self.opened.model, &self.arrangement);
        let same = id.and_then(|id| self.rows.iter().position(|row| row.id == id));
        self.row = same.unwrap_or(self.row.min(self.rows.len().saturating_sub(1)));
        self.scroll();
    }

    pub(crate) fn fold(&mut self) {
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
    pub(crate) fn unfold(&mut self, lane: usize) {
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
    pub(crate) fn shift(&mut self, up: bool) {
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

    pub(crate) fn pin(&mut self) {
        let Some(id) = self.rows.get(self.row).map(|row| row.id) else { return };
        match self.arrangement.pinned.iter().position(|pinned| *pinned == id) {
            Some(at) => {
                self.arrangement.pinned.remove(at);
            }
            None => self.arrangement.pinned.push(id),
        }
        self.arrange();
    }

    pub(crate) fn hide(&mut self) {
        let Some(id) = self.rows.get(self.row).map(|row| row.id) else { return };
        if is_group(id) {
            return self.say(GROUPS);
        }
        self.arrangement.hidden.insert(id);
        self.arrange();
        self.say(format!("{} hidden; Z shows all", crate::text::counted(self.arrangement.hidden.len() as u64, "row")));
    }
}
