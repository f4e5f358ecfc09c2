//! Selections of time, the events in them, and marks.

use super::fields::State;
use crate::data::lane::Source;
use crate::state::parts::mark::Mark;
use crate::state::parts::tab::Tab;
use crate::state::parts::table_rows::Lead;
use crate::text::tame;
use serde_json::{Value, json};

/// Events whose lengths are sorted for the median; more take too long for every frame.
const SORTED: usize = 4_000_000;
/// Columns within which a selection snaps to the edge of an event.
const SNAP: u64 = 2;

/// Sums over a piece of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Number of events.
    pub count: u64,
    pub(crate) failed: u64,
    /// Nanoseconds of the lane's events within the piece.
    pub busy: u64,
    /// Without what was made within them.
    pub own: u64,
    pub(crate) width: u64,
    /// Least, median, 99 of 100, most, of the events that touch it; none of too many.
    pub lengths: Option<[u64; 4]>,
}

impl State {
    /// The piece of time that is selected, from its earlier to its later end.
    pub fn selection(&self) -> Option<(u64, u64)> {
        let (anchor, end) = (self.anchor?, self.fixed.unwrap_or(self.snapped(self.window.cursor)));
        (anchor != end).then_some((anchor.min(end), anchor.max(end)))
    }

    pub(crate) fn toggle_selection(&mut self) {
        match (self.anchor, self.fixed) {
            (Some(_), None) => self.fixed = Some(self.snapped(self.window.cursor)),
            _ => {
                self.anchor = Some(self.snapped(self.window.cursor));
                self.fixed = None;
            }
        }
    }

    /// The nearest edge of an event of the lane, if one is near.
    pub fn snapped(&self, time: u64) -> u64 {
        let Some(lane) = self.lane().and_then(|at| self.opened.model.lanes.get(at)) else { return time };
        let near = self.window.step().saturating_mul(SNAP);
        let first = lane.first_from(time.saturating_sub(near));
        let events = (first..lane.len()).take(64).take_while(|index| lane.begin[*index] <= time.saturating_add(near));
        let edges = events.flat_map(|index| [lane.begin[index], lane.end(index)]);
        let close = edges.filter(|edge| edge.abs_diff(time) <= near);
        close.min_by_key(|edge| edge.abs_diff(time)).unwrap_or(time)
    }

    /// Of the selected row's lane, within a piece of time.
    pub fn statistics(&self, from: u64, to: u64) -> Option<Statistics> {
        let at = self.lane()?;
        let lane = self.opened.model.lanes.get(at)?;
        let cell = lane.cell(from, to);
        let inside = |inner: Source| {
            let lanes = self.opened.model.lanes.iter().filter(|lane| lane.source == inner);
            lanes.map(|lane| lane.cell(from, to).busy).sum()
        };
        let within: u64 = match lane.source {
            Source::Thread { thread, depth } => inside(Source::Thread { thread, depth: depth + 1 }),
            Source::Range { thread, domain, depth } => inside(Source::Range { thread, domain, depth: depth + 1 }),
            _ => 0,
        };
        let first = lane.first_from(from);
        let count = cell.count as usize;
        let lengths = (count > 0 && count <= SORTED).then(|| {
            let mut all: Vec<u64> = (first..first + count).map(|index| lane.length(index)).collect();
            let mut nth = |index: usize| *all.select_nth_unstable(index).1;
            [nth(0), nth((count - 1) / 2), nth((count * 99).div_ceil(100) - 1), nth(count - 1)]
        });
        let (failed, own) = (cell.failed.into(), cell.busy.saturating_sub(within));
        Some(Statistics { count: cell.count, failed, busy: cell.busy, own, width: to - from, lengths })
    }

    /// The mark that is selected in their list.
    pub(crate) fn listed_mark(&self) -> Option<usize> {
        match self.table.rows.get(self.table_row).map(|row| row.lead) {
            Some(Lead::Mark(at)) if self.tab == Tab::Marks && at < self.marks.len() => Some(at),
            _ => None,
        }
    }

    /// Notes something at the cursor, or in place of the note that is selected in the list.
    pub(crate) fn mark(&mut self, note: &str) {
        let listed = self.listed_mark().map(|at| self.marks[at].time);
        let mark = Mark { time: listed.unwrap_or(self.window.cursor), note: tame(note.trim()) };
        let at = self.marks.partition_point(|other| other.time < mark.time);
        if self.marks.get(at).is_some_and(|other| other.time == mark.time) {
            self.marks[at] = mark;
        } else {
            self.marks.insert(at, mark);
        }
        self.show_tab(self.tab);
    }

    pub(crate) fn go_to_mark(&mut self, at: usize) {
        let Some(mark) = self.marks.get(at).cloned() else { return };
        self.event = None;
        self.window = self.window.showing(mark.time);
        self.say(mark.note);
    }

    pub(crate) fn step_mark(&mut self, forward: bool) {
        let cursor = self.window.cursor;
        let found = match forward {
            true => self.marks.iter().position(|mark| mark.time > cursor),
            false => self.marks.iter().rposition(|mark| mark.time < cursor),
        };
        match found {
            Some(at) => self.go_to_mark(at),
            None => self.say("no more marks"),
        }
    }

    /// Whether there was one to remove.
    pub(crate) fn unmark(&mut self) -> bool {
        let cursor = self.window.cursor;
        let nearest = (0..self.marks.len()).min_by_key(|at| self.marks[*at].time.abs_diff(cursor));
        let gone = self.listed_mark().or(nearest).map(|at| self.marks.remove(at));
        self.show_tab(self.tab);
        gone.is_some()
    }

    /// The marks as their file holds them.
    pub fn marks_as_json(&self) -> Value {
        let marks: Vec<Value> = self.marks.iter().map(|m| json!({ "time_ns": m.time, "note": m.note })).collect();
        json!({ "schema": "cutrace.marks/1", "marks": marks })
    }

    /// Marks of a file; those that are not understood are left out.
    pub fn marks_from_json(value: &Value) -> Vec<Mark> {
        let all = value["marks"].as_array().into_iter().flatten();
        let mut marks: Vec<Mark> = all
            .filter_map(|mark| {
                Some(Mark { time: mark["time_ns"].as_u64()?, note: tame(mark["note"].as_str().unwrap_or("")) })
            })
            .collect();
        marks.sort_by_key(|mark| mark.time);
        marks
    }
}
