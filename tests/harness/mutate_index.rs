//! Mutations of the viewer's index of a trace (viewer/src/data/store.rs).

use crate::mutate::Random;
use std::path::Path;
use trace::base::bytes::u64_at;
use trace::base::hash::checksum;

/// Where the header says what the directory is, and where its own checksum stands.
const DIRECTORY_AT: usize = 32;
const DIRECTORY_LENGTH: usize = 40;
const DIRECTORY_CHECK: usize = 48;
const CHECK: usize = 56;

/// The bytes of an index, to be changed.
pub struct Index(Vec<u8>);

impl Index {
    pub fn open(path: &Path) -> Index {
        Index(std::fs::read(path).expect("an index"))
    }

    pub fn write(&self, path: &Path) {
        std::fs::write(path, &self.0).expect("written");
    }

    /// Turns a bit, or cuts the end off. The checksums stay as they were.
    pub fn damage(&mut self, random: &mut Random) -> String {
        let at = random.below(self.0.len());
        if random.below(4) == 0 {
            self.0.truncate(at);
            return format!("the index is cut off at {at}");
        }
        self.0[at] ^= 1 << random.below(8);
        format!("at {at} of the index: a bit is turned")
    }

    /// Changes a number of a column or a byte of the directory, and puts the checksums right.
    pub fn forge(&mut self, random: &mut Random) -> String {
        let columns = self.columns();
        let done = if columns.is_empty() || random.below(2) == 0 {
            let (start, length) = self.directory();
            let (at, byte) = (start + random.below(length), [0, 1, 2, 255, random.word() as u8][random.below(5)]);
            self.0[at] = byte;
            format!("at {at} of the index: a byte of the directory becomes {byte}")
        } else {
            let (offset, length, check) = columns[random.below(columns.len())];
            let width = [1, 4, 8][random.below(3)].min(length);
            let at = offset + random.below(length / width) * width;
            let word = [0, 1, u64::MAX, 1 << random.below(64), random.word()][random.below(5)];
            self.0[at..at + width].copy_from_slice(&word.to_le_bytes()[..width]);
            let right = checksum(&self.0[offset..offset + length]);
            self.put(check, right);
            format!("at {at} of the index: {width} bytes of a column become {word:#x}")
        };
        let (start, length) = self.directory();
        self.put(DIRECTORY_CHECK, checksum(&self.0[start..start + length]));
        self.put(CHECK, checksum(&self.0[..CHECK]));
        done
    }

    fn directory(&self) -> (usize, usize) {
        (u64_at(&self.0, DIRECTORY_AT) as usize, u64_at(&self.0, DIRECTORY_LENGTH) as usize)
    }

    /// Columns by what the directory says of them: offset, length, and where the checksum of the only piece
    /// stands.
    fn columns(&self) -> Vec<(usize, usize, usize)> {
        let (start, length) = self.directory();
        let column = |at: usize| {
            let [offset, length, pieces, check] = [0, 8, 16, 24].map(|field| u64_at(&self.0, at + field));
            let content = self.0.get(offset as usize..offset.checked_add(length)? as usize)?;
            let is_column = length > 0 && pieces == 1 && checksum(content) == check;
            is_column.then_some((offset as usize, length as usize, at + 24))
        };
        (start..(start + length).saturating_sub(31)).filter_map(column).collect()
    }

    fn put(&mut self, at: usize, word: u64) {
        self.0[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
}
