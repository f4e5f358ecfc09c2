//! Queries about watched memory, which change nothing.

use super::watched::Watched;
use super::{MOST_COMPARED, MOST_WATCHED, SHORT, State, Watch};
use crate::in_flight::users::Users;
use crate::os::dirty_pages::{Tracker, pages_of};
use crate::os::intervals::{intersections, without};
use crate::os::probe::bytes_at;
use std::ops::Range;
use std::sync::atomic::Ordering::*;

impl Watch {
    /// Whether some of this memory is watched.
    pub(crate) fn overlaps(&self, memory: &Range<u64>) -> bool {
        let state = self.state.lock();
        let before = state.ranges.range(..memory.end).next_back();
        before.is_some_and(|(_, watched)| watched.end > memory.start)
    }

    /// Whether anything is watched, and so little that the sources of copies may be, too, for the sake of a
    /// rare program: each scan goes through all.
    pub(crate) fn is_short(&self) -> bool {
        (1..SHORT).contains(&self.count.load(Relaxed))
    }

    /// Whether there is room for pieces that can be recorded otherwise, too.
    pub(crate) fn has_room(&self) -> bool {
        self.count.load(Relaxed) < MOST_WATCHED / 2
    }

    /// Whether what the CPU writes there is found without being compared as a whole.
    pub(crate) fn follows(&self, start: u64, len: u64) -> bool {
        if !self.any() {
            return false;
        }
        let state = self.state.lock();
        let before = state.ranges.range(..=start).next_back();
        before.is_some_and(|(_, watched)| watched.tracked && start + len <= watched.end)
    }

    /// Whether other processes may write there, which Linux does not tell.
    pub(crate) fn is_shared(&self, address: u64) -> bool {
        if !self.any() {
            return false;
        }
        let state = self.state.lock();
        let before = state.ranges.range(..=address).next_back();
        before.is_some_and(|(_, watched)| watched.is_shared && address < watched.end)
    }

    /// All pinned memory whose changes by the CPU are known, and that no other thread was seen to use: start
    /// and length. Other memory graphs only read.
    pub(crate) fn pinned(&self, thread: u32) -> Vec<(u64, u64)> {
        let state = self.state.lock();
        let is_own = |watched: &Watched| watched.tracked && watched.pinned && watched.users == Users::One(thread);
        let known = state.ranges.iter().filter(|(_, watched)| is_own(watched));
        known.map(|(start, watched)| (*start, watched.end - start)).collect()
    }

    /// Whether the calls of one thread alone have named this memory.
    pub(crate) fn is_of_one(&self, range: &Range<u64>) -> bool {
        let state = self.state.lock();
        let before = state.ranges.range(..=range.start).next_back();
        before.is_none_or(|(_, watched)| watched.end <= range.start || watched.users.only().is_some())
    }

    /// Whether what the CPU writes there is told, by pages or by comparing all of it.
    pub(crate) fn tells(&self, start: u64, len: u64) -> bool {
        let state = self.state.lock();
        let before = state.ranges.range(..=start).next_back();
        let tells = |(at, watched): (&u64, &Watched)| watched.tracked || watched.end - at <= MOST_COMPARED;
        before.is_some_and(|known| start + len <= known.1.end && tells(known))
    }

    /// Whether the CPU has written in this memory since the last scan, something else than was there, as far
    /// as Linux tells.
    pub(crate) fn has_written_in(&self, range: &Range<u64>) -> bool {
        let mut state = self.state.lock();
        let State { tracker: Some(tracker), ranges, .. } = &mut *state else { return false };
        let around = ranges.range_mut(..=range.start).next_back();
        let Some((start, watched)) = around.filter(|(_, watched)| range.end <= watched.end) else { return false };
        let mut touched = Vec::new();
        if !watched.tracked || watched.managed || !tracker.written_so_far(pages_of(range), &mut touched) {
            return false;
        }
        let touched = touched.iter().flat_map(|pages| intersections(pages, std::slice::from_ref(range)));
        let touched: Vec<_> = touched.flat_map(|part| without(part, watched.doubtful())).collect();
        touched.iter().any(|part| {
            let bytes = bytes_at(part.start, (part.end - part.start) as usize, true);
            bytes.is_some_and(|bytes| !watched.shadow.differing((part.start - start) as usize, &bytes).is_empty())
        })
    }

    /// Where the CPU has written in this memory what is not told yet; none if it may have anywhere since the
    /// last scan, as far as the kernel tells.
    pub(crate) fn untold_in(&self, range: &Range<u64>) -> Option<Vec<Range<u64>>> {
        let state = self.state.lock();
        let (_, watched) = state.ranges.range(..=range.start).next_back()?;
        let sure = without(range.clone(), watched.doubtful());
        let is_still = |tracker: &Tracker| sure.iter().all(|range| !tracker.is_written(pages_of(range)));
        // Others' writes a launch cannot be told from.
        let is_known = watched.tracked && !watched.managed && !watched.is_shared;
        let is_told = is_known && state.tracker.as_ref().is_some_and(is_still);
        is_told.then(|| sure.iter().flat_map(|range| intersections(range, &watched.left)).collect())
    }

    /// What has changed where nobody can tell the CPU's writes from a kernel's, of memory that a launch was
    /// given.
    pub(crate) fn doubtful_in(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut state = self.state.lock();
        let Some((start, watched)) = state.ranges.range_mut(..=range.start).next_back() else { return Vec::new() };
        let doubtful = intersections(range, watched.doubtful());
        doubtful.into_iter().filter(|place| !watched.is_as_known(*start, place)).collect()
    }
}
