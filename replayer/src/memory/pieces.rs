//! Pieces of device memory that are mapped at recorded addresses, and the live allocations that need them.

use crate::base::addresses::GRANULE;
use crate::base::ranges::{Ranges, widen};
use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Default)]
pub(crate) struct Pieces {
    by_start: BTreeMap<u64, MappedPiece>,
    /// Recorded allocations that have not been freed, by their start.
    live: BTreeMap<u64, Range<u64>>,
    /// The length of the longest that there was: such ranges may lie within others (what no recorded call
    /// made is taken in whole granules).
    longest: u64,
}

struct MappedPiece {
    end: u64,
    /// Live device.
    device: i32,
    /// Live allocations that reach into it.
    users: u32,
}

impl Pieces {
    /// The parts of a recorded range that are not mapped, in whole granules.
    pub(crate) fn gaps(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let wide = widen(range.clone(), GRANULE);
        let mut gaps = Vec::new();
        let mut at = wide.start;
        for (start, piece) in self.overlapping(&wide) {
            if at < start {
                gaps.push(at..start);
            }
            at = at.max(piece.end);
        }
        if at < wide.end {
            gaps.push(at..wide.end);
        }
        gaps
    }

    /// The granules of a recorded range that are mapped and in which no allocation lives. The driver has
    /// given such a granule back, and has another with zeros for it when it is needed again; in others the
    /// bytes of what was freed stay (seen on driver 580: tests/gpu/facts/fresh_memory.c).
    pub(crate) fn idle_granules(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let wide = widen(range.clone(), GRANULE);
        let below = self.live.range(wide.start.saturating_sub(self.longest)..wide.end).map(|(_, live)| live.clone());
        let living = Ranges::union(below.filter(|live| live.end > wide.start), GRANULE);
        let gaps = Ranges::union(self.gaps(range), 1);
        living.gaps(wide).into_iter().flat_map(|empty| gaps.gaps(empty)).collect()
    }

    pub(crate) fn mapped(&mut self, piece: Range<u64>, device: i32) {
        self.by_start.insert(piece.start, MappedPiece { end: piece.end, device, users: 0 });
    }

    /// The pieces that overlap a range.
    pub(crate) fn pieces_around(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        self.overlapping(range).map(|(start, piece)| start..piece.end).collect()
    }

    /// An allocation lives; its pieces are mapped.
    pub(crate) fn allocated(&mut self, range: Range<u64>) {
        self.freed(range.start);
        self.count(&range, |users| users + 1);
        self.longest = self.longest.max(range.end - range.start);
        self.live.insert(range.start, range);
    }

    pub(crate) fn freed(&mut self, start: u64) {
        if let Some(range) = self.live.remove(&start) {
            self.count(&range, |users| users.saturating_sub(1));
        }
    }

    pub(crate) fn all_freed(&mut self) {
        self.live.clear();
        self.by_start.values_mut().for_each(|piece| piece.users = 0);
    }

    /// Takes out the pieces that no allocation needs, of those that overlap this range; those of a device may
    /// stay.
    pub(crate) fn take_dead(&mut self, within: &Range<u64>, but: Option<i32>) -> Vec<Range<u64>> {
        let dead = self.overlapping(within).filter(|(_, piece)| piece.users == 0 && Some(piece.device) != but);
        let dead: Vec<Range<u64>> = dead.map(|(start, piece)| start..piece.end).collect();
        for piece in &dead {
            self.by_start.remove(&piece.start);
        }
        dead
    }

    fn count(&mut self, range: &Range<u64>, change: impl Fn(u32) -> u32) {
        let starts: Vec<u64> = self.overlapping(range).map(|(start, _)| start).collect();
        for start in starts {
            let piece = self.by_start.get_mut(&start).expect("just found");
            piece.users = change(piece.users);
        }
    }

    fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, &MappedPiece)> {
        let first = self.by_start.range(..=range.start).next_back().map_or(range.start, |(start, _)| *start);
        let start = range.start;
        let pieces = self.by_start.range(first..range.end.max(first));
        pieces.filter(move |(_, piece)| piece.end > start).map(|(start, piece)| (*start, piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const G: u64 = GRANULE;

    #[test]
    fn allocations_share_granules() {
        let mut pieces = Pieces::default();
        assert_eq!(pieces.gaps(&(G + 512..G + 1024)), vec![G..2 * G]);
        pieces.mapped(G..2 * G, 0);
        pieces.allocated(G + 512..G + 1024);
        assert_eq!(pieces.gaps(&(G..G + 512)), vec![]);
        pieces.allocated(G..G + 512);
        assert_eq!(pieces.gaps(&(0..4 * G)), vec![0..G, 2 * G..4 * G]);
        pieces.freed(G + 512);
        assert_eq!(pieces.take_dead(&(0..u64::MAX), None), vec![]);
        pieces.freed(G);
        assert_eq!(pieces.take_dead(&(2 * G..3 * G), None), vec![]);
        assert_eq!(pieces.take_dead(&(0..u64::MAX), None), vec![G..2 * G]);
        assert_eq!(pieces.gaps(&(G..G + 1)), vec![G..2 * G]);
    }

    #[test]
    fn granules_in_which_nothing_lives_are_given_back() {
        let mut pieces = Pieces::default();
        pieces.mapped(0..4 * G, 0);
        pieces.allocated(0..512);
        pieces.allocated(512..G + 512);
        pieces.allocated(3 * G..3 * G + 512);
        pieces.freed(512);
        assert_eq!(pieces.idle_granules(&(512..G)), vec![]);
        assert_eq!(pieces.idle_granules(&(512..5 * G)), vec![G..3 * G]);
        pieces.freed(0);
        assert_eq!(pieces.idle_granules(&(512..1024)), vec![0..G]);
        pieces.allocated(0..4 * G);
        pieces.allocated(512..1024);
        assert_eq!(pieces.idle_granules(&(2 * G + 512..2 * G + 1024)), vec![]);
    }

    #[test]
    fn an_address_allocated_again_is_one_allocation() {
        let mut pieces = Pieces::default();
        pieces.mapped(0..4 * G, 0);
        pieces.allocated(0..G);
        // Its free was not recorded.
        pieces.allocated(0..2 * G);
        pieces.freed(0);
        assert_eq!(pieces.take_dead(&(0..G), None), vec![0..4 * G]);
    }

    #[test]
    fn an_address_on_another_device_is_another_piece() {
        let mut pieces = Pieces::default();
        pieces.mapped(0..2 * G, 0);
        pieces.allocated(G..2 * G);
        assert_eq!(pieces.take_dead(&(0..G), Some(1)), vec![]);
        pieces.freed(G);
        assert_eq!(pieces.take_dead(&(0..G), Some(0)), vec![]);
        assert_eq!(pieces.take_dead(&(0..G), Some(1)), vec![0..2 * G]);
        assert_eq!(pieces.gaps(&(0..G)), vec![0..G]);
    }
}
