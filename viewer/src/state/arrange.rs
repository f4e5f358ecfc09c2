//! How the user wants the rows: folded, moved, pinned, hidden.

use super::State;
use super::rows::{self, Id};

impl State {
    pub(super) fn arrange(&mut self) {
        let id = self.rows.get(self.row).map(|row| row.id);
        self.rows = rows::rows(&self.opened.model, &self.arrangement);
        let same = id.and_then(|id| self.rows.iter().position(|row| row.id == id));
        self.row = same.unwrap_or(self.row.min(self.rows.len().saturating_sub(1)));
        self.scroll();
    }

    pub(super) fn fold(&mut self) {
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
    pub(super) fn unfold(&mut self, lane: usize) {
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
    pub(super) fn shift(&mut self, up: bool) {
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

    pub(super) fn pin(&mut self) {
        let Some(id) = self.rows.get(self.row).map(|row| row.id) else { return };
        match self.arrangement.pinned.iter().position(|pinned| *pinned == id) {
            Some(at) => {
                self.arrangement.pinned.remove(at);
            }
            None => self.arrangement.pinned.push(id),
        }
        self.arrange();
    }

    pub(super) fn hide(&mut self) {
        let Some(id) = self.rows.get(self.row).map(|row| row.id) else { return };
        if matches!(id, Id::Process | Id::Device(_) | Id::Context(..)) {
            return self.say("groups are folded, with space; lanes can be hidden");
        }
        self.arrangement.hidden.insert(id);
        self.arrange();
        self.say(format!("{} hidden; Z shows all", crate::text::counted(self.arrangement.hidden.len() as u64, "lane")));
    }
}
