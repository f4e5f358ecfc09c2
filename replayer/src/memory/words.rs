//! Addresses in bytes of unknown structure: payloads, arguments, results.
//!
//! Any 8-byte word may be one. Only words that point into memory which is elsewhere now are rewritten (or to
//! the first address behind it, if nothing else is there), so nothing is searched if all memory is at its
//! place. A word lies where the device can load one: at a multiple of 8 of its address there. Addresses that
//! a program keeps in another form (offsets, halves, with flags in the low bits of a word behind the end) are
//! not found; those that point to recorded memory which no longer exists are counted.

use crate::base::ranges::Ranges;
use crate::memory::place::Placement;
use crate::memory::translate::{Tables, Translation, range_around_both};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ops::Range;
use trace::api::copies::Region;
use trace::base::bytes::u64_at;

/// Memory begins above this.
const LOWEST: u64 = 1 << 16;

/// Counts of translated words, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Words {
    /// Rewritten in bytes on their way to the device.
    pub payloads: u64,
    /// Rewritten in kernel arguments.
    pub arguments: u64,
    /// In results: live addresses that stand for the recorded ones.
    pub results: u64,
    /// Blocks of addresses of the driver's own, code and the like, found to be elsewhere.
    pub learned: u64,
    /// Not rewritten, though they lead where memory was recorded that is not at its place: it was freed, or
    /// the word is no address at all.
    pub left: u64,
}

impl Words {
    pub(crate) fn add(&mut self, other: Words) {
        self.payloads += other.payloads;
        self.arguments += other.arguments;
        self.results += other.results;
        self.learned += other.learned;
        self.left += other.left;
    }
}

/// The positions of words in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    row_bytes: usize,
    /// Into a row. The rows of pitched memory are aligned alike.
    first: usize,
}

impl Layout {
    /// Packed rows, of which the first begins at this device address.
    pub(crate) fn rows(region: &Region, device: u64) -> Layout {
        Layout { row_bytes: region.row_bytes.max(1) as usize, ..Layout::dense(device) }
    }

    /// Bytes that lie at this address.
    pub(crate) fn dense(address: u64) -> Layout {
        Layout { row_bytes: usize::MAX, first: (address.wrapping_neg() % 8) as usize }
    }

    pub(crate) fn each(self, bytes: &[u8], mut see: impl FnMut(usize, u64)) {
        for (row, bytes) in bytes.chunks(self.row_bytes).enumerate() {
            let Some(aligned) = bytes.get(self.first..) else { continue };
            let start = row.saturating_mul(self.row_bytes) + self.first;
            for (n, word) in aligned.chunks_exact(8).enumerate() {
                see(start + n * 8, u64_at(word, 0));
            }
        }
    }
}

/// The meaning of a recorded word in the replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// An address that is another one now.
    Moved(u64),
    /// It leads where memory was, and nothing is.
    Left,
    /// A number, or an address that is the same here.
    Same,
}

/// Recorded memory that is not held at its addresses.
pub(crate) fn unheld(recorded: &Ranges, held: &Ranges) -> Ranges {
    Ranges::union(recorded.iter().flat_map(|run| held.gaps(run)), 1)
}

impl Placement<'_> {
    pub(crate) fn word(&self, tables: &Tables, value: u64) -> Word {
        let unless_at_home =
            || tables.live_end(value).or_else(|| tables.learned(value)).filter(|_| !self.is_in_place(value));
        let moved = tables.live(value).or_else(unless_at_home);
        match moved {
            Some(live) if live == value => Word::Same,
            Some(live) => Word::Moved(live),
            None if self.unheld.contains(value) => Word::Left,
            None => Word::Same,
        }
    }

    /// Recorded bytes as the replay's device must see them. They stay where they are if no word of theirs
    /// moves.
    pub(crate) fn to_live<'b>(&self, bytes: Cow<'b, [u8]>, layout: Layout) -> (Cow<'b, [u8]>, Words) {
        let (moved, words) = self.moved_words(&bytes, layout);
        (replaced(bytes, &moved), words)
    }

    /// The words of recorded bytes that are others for the replay's device, and where they stand.
    pub(crate) fn moved_words(&self, bytes: &[u8], layout: Layout) -> (Vec<(usize, u64)>, Words) {
        if !self.translation.is_in_use() && self.unheld.is_empty() {
            return Default::default();
        }
        let tables = self.translation.tables();
        let bounds = range_around_both(&tables.bounds(), &self.unheld.bounds());
        moved(bytes, layout, &bounds, |value| self.word(&tables, value))
    }

    /// Where a recorded address is now, if it is another one.
    pub(crate) fn moved(&self, recorded: u64) -> Option<u64> {
        if !self.translation.is_in_use() {
            return None;
        }
        let tables = self.translation.tables();
        tables.live(recorded).or_else(|| tables.learned(recorded).filter(|_| !self.is_in_place(recorded)))
    }

    /// Whether memory that is where it was holds this address.
    pub(crate) fn is_in_place(&self, address: u64) -> bool {
        self.pages.contains(address)
            || self.homes.lock().range(..=address).next_back().is_some_and(|(_, end)| address < *end)
    }
}

impl Translation {
    /// What the device made, with recorded addresses in place of the live ones: how the recorded device would
    /// have made it. None if there is no such address in it. `since`: when the copy was put on its way.
    pub(crate) fn to_recorded(&self, bytes: &[u8], layout: Layout, since: usize) -> Option<(Vec<u8>, u64)> {
        if !self.has_moved() {
            return None;
        }
        let tables = self.tables();
        let mut moved: Vec<(usize, u64)> = Vec::new();
        layout.each(bytes, |at, value| {
            if (LOWEST..1 << 47).contains(&value)
                && let Some(recorded) = tables.recorded(value, since).filter(|recorded| *recorded != value)
            {
                moved.push((at, recorded));
            }
        });
        (!moved.is_empty()).then(|| (replaced(Cow::Borrowed(bytes), &moved).into_owned(), moved.len() as u64))
    }
}

/// `word` says what words within the bounds are here.
fn moved(bytes: &[u8], layout: Layout, bounds: &Range<u64>, word: impl Fn(u64) -> Word) -> (Vec<(usize, u64)>, Words) {
    let mut found = Words::default();
    let mut moved: Vec<(usize, u64)> = Vec::new();
    layout.each(bytes, |at, value| {
        if bounds.contains(&value) {
            match word(value) {
                Word::Moved(live) => moved.push((at, live)),
                Word::Left => found.left += 1,
                Word::Same => {}
            }
        }
    });
    found.payloads = moved.len() as u64;
    (moved, found)
}

fn replaced<'b>(bytes: Cow<'b, [u8]>, words: &[(usize, u64)]) -> Cow<'b, [u8]> {
    if words.is_empty() {
        return bytes;
    }
    let mut own = bytes.into_owned();
    for (at, word) in words {
        own[*at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    Cow::Owned(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_at(layout: Layout, bytes: &[u8]) -> Vec<usize> {
        let mut found = Vec::new();
        layout.each(bytes, |at, _| found.push(at));
        found
    }

    #[test]
    fn words_stand_where_the_device_can_load_them() {
        let region =
            |row_bytes, rows| Region { address: 0, row_bytes, rows, pitch: 64, slices: 1, slice_pitch: 64 * rows };
        assert_eq!(words_at(Layout::dense(0), &[0; 20]), [0, 8]);
        assert_eq!(words_at(Layout::rows(&region(24, 1), 0x1000), &[0; 24]), [0, 8, 16]);
        assert_eq!(words_at(Layout::rows(&region(24, 1), 0x1004), &[0; 24]), [4, 12]);
        assert_eq!(words_at(Layout::rows(&region(12, 2), 0x1000), &[0; 24]), [0, 12]);
        assert_eq!(words_at(Layout::rows(&region(4, 1), 0x1001), &[0; 4]), []);
    }

    #[test]
    fn a_payload_without_moved_words_stays_where_it_is() {
        let bytes: Vec<u8> = [0x1000u64, 0x2000, 0x3000].into_iter().flat_map(u64::to_le_bytes).collect();
        let word = |value| match value {
            0x1000 => Word::Same,
            0x2000 => Word::Left,
            _ => Word::Moved(7),
        };
        let (none, words) = moved(&bytes, Layout::dense(0), &(0x1000..0x3000), word);
        let same = replaced(Cow::Borrowed(&bytes), &none);
        assert_eq!((same.as_ptr(), words), (bytes.as_ptr(), Words { left: 1, ..Words::default() }));
        let (one, words) = moved(&bytes, Layout::dense(0), &(0x1000..0x3001), word);
        let own = replaced(Cow::Borrowed(&bytes), &one);
        assert_eq!((&own[..16], &own[16..]), (&bytes[..16], &7u64.to_le_bytes()[..]));
        assert_eq!(words, Words { payloads: 1, left: 1, ..Words::default() });
    }

    #[test]
    fn results_are_mapped_back() {
        let translation = Translation::default();
        let bytes: Vec<u8> = [0x90_0010u64, 7, 0x90_0100, 0x90_0101].into_iter().flat_map(u64::to_le_bytes).collect();
        assert_eq!(translation.to_recorded(&bytes, Layout::dense(0), 0), None);
        translation.bind(0x1000, 0x100, 0x90_0000);
        translation.unbind(0x1000);
        let expected: Vec<u8> = [0x1010u64, 7, 0x1100, 0x90_0101].into_iter().flat_map(u64::to_le_bytes).collect();
        assert_eq!(translation.to_recorded(&bytes, Layout::dense(0), 0), Some((expected, 2)));
        assert_eq!(translation.to_recorded(&bytes[8..16], Layout::dense(0), 0), None);
    }

    #[test]
    fn what_is_not_held() {
        let recorded = Ranges::union([0..100, 200..300], 1);
        let held = Ranges::union(std::iter::once(50..250), 1);
        assert!(unheld(&recorded, &held).iter().eq([0..50, 250..300]));
        assert!(unheld(&recorded, &recorded).is_empty());
    }
}
