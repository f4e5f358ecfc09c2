//! Translation of addresses of memory that could not be placed: module globals, graph memory, ranges already
//! taken.
//!
//! It works in both directions. The live address of recorded memory is forgotten when the memory is freed.
//! The recorded address of live memory is kept longer, until the live address is reused: results may still
//! hold it.

use parking_lot::{RwLock, RwLockReadGuard};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use trace::model::driver_addresses::{BLOCK, block_of};

#[derive(Debug, Clone, Copy)]
struct MovedRange {
    len: u64,
    to: u64,
    of: MovedObject,
}

/// The contents of addresses that moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MovedObject {
    /// Memory, which ends when the driver says so.
    Memory,
    /// Memory of a graph: each launch allocates it again at the same address, so that no free ends it.
    Graph,
    /// Addresses that the replay has reserved, mapped or not.
    Reservation,
}

/// The tables of live and recorded addresses. The lock is held while many words are looked up.
#[derive(Default)]
pub(crate) struct Tables {
    /// By recorded address.
    live: RangeMap,
    /// By live address.
    recorded: RangeMap,
    /// What was in `recorded` until its live address became another's, in that order. A copy that was under
    /// way then may still hold it.
    past: Vec<(u64, MovedRange)>,
    /// Of the driver's own, learned from results: by recorded address, and by live address.
    blocks: (RangeMap, RangeMap),
}

#[derive(Default)]
pub(crate) struct Translation {
    tables: RwLock<Tables>,
    /// Lets the common case (nothing moved) do without the lock.
    count: AtomicUsize,
    /// Whether anything ever came to lie at another address.
    ever: AtomicBool,
}

impl Translation {
    /// `len` bytes at the recorded `start` are now at `live`. Older ranges that overlap are gone.
    pub(crate) fn bind(&self, start: u64, len: u64, live: u64) {
        self.insert(start, MovedRange { len, to: live, of: MovedObject::Memory });
    }

    /// As [`bind`](Translation::bind), for a reservation.
    pub(crate) fn bind_reserved(&self, start: u64, len: u64, live: u64) {
        self.insert(start, MovedRange { len, to: live, of: MovedObject::Reservation });
    }

    /// As [`bind`](Translation::bind), for memory that a graph allocates whenever it is launched.
    pub(crate) fn bind_of_graph(&self, start: u64, len: u64, live: u64) {
        self.insert(start, MovedRange { len, to: live, of: MovedObject::Graph });
    }

    fn insert(&self, start: u64, moved: MovedRange) {
        // A forged address may leave no room for what is said to be there.
        let ends = |start: u64| start.checked_add(moved.len).is_some_and(|end| end < u64::MAX);
        if start == 0 || moved.len == 0 || !ends(start) || !ends(moved.to) {
            return;
        }
        let mut tables = self.tables.write();
        tables.live.insert(start, moved);
        let past = tables.recorded.insert(moved.to, MovedRange { to: start, ..moved });
        tables.past.extend(past);
        self.count.store(tables.count(), Ordering::Release);
        if start != moved.to {
            self.ever.store(true, Ordering::Release);
        }
    }

    /// Learns where a block of the driver's own is, from an address in it and what that is here. False if
    /// either is known to be another, or if they cannot lie in one block.
    pub(crate) fn learn(&self, recorded: u64, live: u64) -> bool {
        let mut tables = self.tables.write();
        let (there, here) = (&tables.blocks.0, &tables.blocks.1);
        if recorded % BLOCK != live % BLOCK || there.translate(recorded).is_some() || here.translate(live).is_some() {
            return false;
        }
        self.keep_block(&mut tables, recorded, live);
        true
    }

    /// The same, from a call that told both: what is known else is of a module that is gone.
    pub(crate) fn tell_block(&self, recorded: u64, live: u64) {
        if recorded % BLOCK == live % BLOCK && recorded != 0 {
            self.keep_block(&mut self.tables.write(), recorded, live);
        }
    }

    fn keep_block(&self, tables: &mut Tables, recorded: u64, live: u64) {
        let moved = |to| MovedRange { len: BLOCK, to: block_of(to), of: MovedObject::Memory };
        tables.blocks.0.insert(block_of(recorded), moved(live));
        tables.blocks.1.insert(block_of(live), moved(recorded));
        self.count.store(tables.count(), Ordering::Release);
        if recorded != live {
            self.ever.store(true, Ordering::Release);
        }
    }

    /// Forgets the range that begins here, unless it comes again; its live address.
    pub(crate) fn unbind(&self, start: u64) -> Option<u64> {
        if !self.is_in_use() {
            return None;
        }
        let mut tables = self.tables.write();
        let moved = *tables.live.0.get(&start)?;
        if moved.of != MovedObject::Graph {
            tables.live.0.remove(&start);
        }
        self.count.store(tables.count(), Ordering::Release);
        Some(moved.to)
    }

    /// Something else is at these recorded addresses, and it is really there.
    pub(crate) fn forget(&self, at: &Range<u64>) {
        if self.is_in_use() || self.has_moved() {
            let mut tables = self.tables.write();
            tables.live.cut(at);
            let past = tables.recorded.cut(at);
            tables.past.extend(past);
            self.count.store(tables.count(), Ordering::Release);
        }
    }

    /// Whether a graph allocates the memory that begins here.
    pub(crate) fn is_of_graph(&self, start: u64) -> bool {
        self.is_in_use() && self.tables.read().live.0.get(&start).is_some_and(|moved| moved.of == MovedObject::Graph)
    }

    /// Where a recorded address is now, if it lies in a range that moved.
    pub(crate) fn live(&self, recorded: u64) -> Option<u64> {
        if !self.is_in_use() { None } else { self.tables.read().live(recorded) }
    }

    /// Which recorded address a live one stands for.
    pub(crate) fn recorded(&self, live: u64) -> Option<u64> {
        if !self.has_moved() { None } else { self.tables.read().recorded(live, usize::MAX) }
    }

    /// The same, of memory that calls told about.
    pub(crate) fn recorded_by_calls(&self, live: u64) -> Option<u64> {
        if !self.has_moved() { None } else { self.tables.read().recorded_address(live) }
    }

    /// This moment, to ask later what stood for what.
    pub(crate) fn now(&self) -> usize {
        if !self.has_moved() { 0 } else { self.tables.read().past.len() }
    }

    /// Whether any recorded range is translated now.
    pub(crate) fn is_in_use(&self) -> bool {
        self.count.load(Ordering::Acquire) != 0
    }

    pub(crate) fn has_moved(&self) -> bool {
        self.ever.load(Ordering::Acquire)
    }

    pub(crate) fn tables(&self) -> RwLockReadGuard<'_, Tables> {
        self.tables.read()
    }
}

impl Tables {
    pub(crate) fn live(&self, recorded: u64) -> Option<u64> {
        self.live.translate(recorded)
    }

    /// The same of a whole range, and what lies there.
    pub(crate) fn live_range(&self, recorded: &Range<u64>) -> Option<(u64, MovedObject)> {
        let (start, moved) = self.live.0.range(..=recorded.start).next_back()?;
        let at = recorded.start - start;
        let is_inside = recorded.end.checked_sub(*start).is_some_and(|end| end <= moved.len);
        is_inside.then(|| (moved.to + at, moved.of))
    }

    /// Where the end of a range that moved is now, if the address is one: the last of a pair of iterators.
    pub(crate) fn live_end(&self, recorded: u64) -> Option<u64> {
        self.live.end(recorded)
    }

    /// Where an address of the driver's own is now, if that was learned.
    pub(crate) fn learned(&self, recorded: u64) -> Option<u64> {
        self.blocks.0.translate(recorded)
    }

    fn count(&self) -> usize {
        self.live.0.len() + self.blocks.0.0.len()
    }

    /// What a live address stood for at a moment, or for the first time after it.
    pub(crate) fn recorded(&self, live: u64, since: usize) -> Option<u64> {
        let gone = self.past.get(since..).unwrap_or_default();
        let was = |(start, moved): &(u64, MovedRange)| {
            let at = live.checked_sub(*start).filter(|at| *at < moved.len)?;
            Some(moved.to + at)
        };
        let now = || self.recorded_address(live).or_else(|| self.blocks.1.translate(live));
        gone.iter().find_map(was).or_else(now)
    }

    fn recorded_address(&self, live: u64) -> Option<u64> {
        self.recorded.translate(live).or_else(|| self.recorded.end(live))
    }

    /// All recorded addresses that may be translated, the ends of ranges too, lie in here.
    pub(crate) fn bounds(&self) -> Range<u64> {
        range_around_both(&self.live.bounds(), &self.blocks.0.bounds())
    }
}

/// Both, and what lies between them.
pub(crate) fn range_around_both(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    match (a.is_empty(), b.is_empty()) {
        (true, _) => b.clone(),
        (_, true) => a.clone(),
        _ => a.start.min(b.start)..a.end.max(b.end),
    }
}

/// Ranges by their start.
#[derive(Default)]
struct RangeMap(BTreeMap<u64, MovedRange>);

impl RangeMap {
    /// What it takes the place of.
    fn insert(&mut self, start: u64, moved: MovedRange) -> Vec<(u64, MovedRange)> {
        let stale = self.cut(&(start..start.saturating_add(moved.len)));
        self.0.insert(start, moved);
        // The same again is nothing new.
        stale.into_iter().filter(|(at, old)| *at != start || old.to != moved.to || old.len > moved.len).collect()
    }

    /// Takes out what overlaps, whole.
    fn cut(&mut self, at: &Range<u64>) -> Vec<(u64, MovedRange)> {
        let before = self.0.range(..at.end).rev();
        let stale: Vec<u64> =
            before.take_while(|(start, moved)| **start + moved.len > at.start).map(|(start, _)| *start).collect();
        stale.into_iter().filter_map(|start| self.0.remove_entry(&start)).collect()
    }

    fn translate(&self, address: u64) -> Option<u64> {
        let (start, moved) = self.0.range(..=address).next_back()?;
        (address - start < moved.len).then(|| moved.to + (address - start))
    }

    fn end(&self, address: u64) -> Option<u64> {
        let (start, moved) = self.0.range(..address).next_back()?;
        (address - start == moved.len).then(|| moved.to + moved.len)
    }

    fn bounds(&self) -> Range<u64> {
        let end = self.0.last_key_value().map_or(0, |(start, moved)| start + moved.len + 1);
        self.0.first_key_value().map_or(0, |(start, _)| *start)..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_inside_moves() {
        let translation = Translation::default();
        assert_eq!(translation.live(0x1000), None);
        translation.bind(0x1000, 0x100, 0x9000);
        assert_eq!(translation.live(0xfff), None);
        assert_eq!(translation.live(0x1000), Some(0x9000));
        assert_eq!(translation.live(0x10ff), Some(0x90ff));
        assert_eq!(translation.live(0x1100), None);
        assert_eq!(translation.tables().live_end(0x1100), Some(0x9100));
        assert_eq!(translation.tables().live_end(0x1000), None);
    }

    #[test]
    fn a_new_range_replaces_what_it_overlaps() {
        let translation = Translation::default();
        translation.bind(0x1000, 0x100, 0x9000);
        translation.bind(0x1100, 0x100, 0xa000);
        translation.bind(0x10f0, 0x20, 0xb000);
        assert_eq!(translation.live(0x1000), None);
        assert_eq!(translation.live(0x10f0), Some(0xb000));
        assert_eq!(translation.live(0x1180), None);
        assert_eq!(translation.unbind(0x10f0), Some(0xb000));
        assert_eq!(translation.live(0x10f0), None);
    }

    #[test]
    fn the_way_back_outlives_the_memory() {
        let translation = Translation::default();
        assert!(!translation.has_moved());
        translation.bind(0x1000, 0x100, 0x9000);
        assert_eq!(translation.unbind(0x1000), Some(0x9000));
        assert_eq!((translation.live(0x1010), translation.recorded(0x9010)), (None, Some(0x1010)));
        assert_eq!(translation.recorded(0x9100), Some(0x1100), "one past the end");
        // Another's from here on.
        translation.bind(0x2000, 0x10, 0x9010);
        assert_eq!((translation.recorded(0x9010), translation.recorded(0x9050)), (Some(0x2000), None));
        // Memory at its place is what its address says.
        translation.forget(&(0x9000..0xa000));
        assert_eq!(translation.recorded(0x9010), None);
    }

    #[test]
    fn blocks_of_the_driver_move_as_a_whole() {
        let translation = Translation::default();
        let (was, is) = (0x7fb5_f77a_c200, 0x7f32_5f7a_c200);
        assert!(!translation.learn(was, is + 0x100), "another place in the block");
        assert!(!translation.is_in_use());
        assert!(translation.learn(was, is));
        let tables = || translation.tables();
        assert_eq!((tables().learned(was + 0xa00), tables().live(was)), (Some(is + 0xa00), None));
        assert_eq!(translation.recorded(is - 0x200), Some(was - 0x200));
        assert!(tables().bounds().contains(&was));
        assert!(!translation.learn(was + 8, is + BLOCK + 8), "it is elsewhere");
        assert!(!translation.learn(was + BLOCK + 8, is + 8), "another's");
        // What calls have told goes before.
        translation.bind(was, 8, 0x9000);
        assert_eq!((tables().live(was), translation.recorded(0x9000)), (Some(0x9000), Some(was)));
    }

    #[test]
    fn a_copy_under_way_holds_what_was() {
        let translation = Translation::default();
        translation.bind(0x1000, 0x100, 0x9000);
        let first = translation.now();
        translation.unbind(0x1000);
        translation.bind(0x1000, 0x100, 0x9000);
        assert_eq!(translation.now(), first, "the same again");
        translation.bind(0x2000, 0x40, 0x9000);
        let second = translation.now();
        translation.bind(0x3000, 0x40, 0x9020);
        let tables = translation.tables();
        let at = |since| [0x9010, 0x9030].map(|live| tables.recorded(live, since));
        assert_eq!(at(first), [Some(0x1010), Some(0x1030)]);
        assert_eq!(at(second), [Some(0x2010), Some(0x2030)]);
        assert_eq!(at(usize::MAX), [None, Some(0x3010)]);
    }

    #[test]
    fn memory_of_a_graph_comes_again() {
        let translation = Translation::default();
        translation.bind_of_graph(0x1000, 0x100, 0x9000);
        assert!(translation.is_of_graph(0x1000) && !translation.is_of_graph(0x1001));
        assert_eq!((translation.unbind(0x1000), translation.live(0x1000)), (Some(0x9000), Some(0x9000)));
        translation.forget(&(0x10ff..0x1200));
        assert_eq!(translation.live(0x1000), None);
    }

    #[test]
    fn bounds_hold_the_ends() {
        let translation = Translation::default();
        assert!(translation.tables().bounds().is_empty());
        translation.bind(0x1000, 0x100, 0x9000);
        translation.bind(0x3000, 0x100, 0x8000);
        assert_eq!(translation.tables().bounds(), 0x1000..0x3101);
    }
}
