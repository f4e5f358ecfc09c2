//! Records as columns, so that any compressor finds what calls of one kind share: each distinct head once,
//! and each word as its difference from the previous one, byte by byte.
//!
//! ```text
//! heads u32 | records u32 | rest u32 | zero u32
//! head 8 each, all different | which head each record has: low bytes of all, high bytes of all
//! by head, by word: mask u8
//! by head, by word, by byte that the mask names: that byte of all such records
//! rest: what is no whole record
//! ```
//!
//! A word is stored as the difference from the same word of the previous record with the same head; a time
//! stamp from the previous time stamp; the word in which a return names its call from the number of the last
//! call entered.

use crate::base::bytes::{u32_at, u64_at};
use crate::file::record;
use std::collections::HashMap;

const FIXED: usize = 16;
const WORD: usize = 8;

/// The words of a record that are times, in order.
fn times(head: &[u8]) -> &'static [usize] {
    match head[4] {
        record::ENTRY | record::RETURN | record::ANNOTATION => &[1],
        record::WRITTEN => &[1, 2],
        record::REPEATED => &[3, 4],
        record::TIMED => &[1, 2, 3, 4],
        _ => &[],
    }
}

/// Bytes that the columns of so many bytes of records may take.
pub(super) fn most(records: usize) -> usize {
    // A record is no shorter than a word, and there are no more heads than records.
    FIXED + records + records / WORD * 3
}

/// All records with one head.
struct Group {
    head: [u8; WORD],
    /// Where each begins.
    at: Vec<usize>,
}

impl Group {
    fn words(&self) -> usize {
        u32_at(&self.head, 0) as usize / WORD
    }
}

/// What goes from record to record: the last time stamp, and how many calls were entered.
struct Chain {
    time: u64,
    entered: u64,
}

impl Chain {
    fn from(first_call: u64) -> Chain {
        Chain { time: 0, entered: first_call.wrapping_sub(1) }
    }

    /// Goes past the record at `at`, whose words that are chained `change` gets with what they are measured
    /// by, and gives as they are in the file.
    fn pass(&mut self, bytes: &mut [u8], at: usize, change: fn(u64, u64) -> (u64, u64)) {
        let head: [u8; WORD] = bytes[at..at + WORD].try_into().expect("a word");
        let words = u32_at(&head, 0) as usize / WORD;
        let mut one = |word: usize, by: u64| {
            if word >= words {
                return by;
            }
            let place = at + word * WORD;
            let (stored, real) = change(u64_at(bytes, place), by);
            bytes[place..place + WORD].copy_from_slice(&stored.to_le_bytes());
            real
        };
        self.time = times(&head).iter().fold(self.time, |time, word| one(*word, time));
        match head[4] {
            record::ENTRY => self.entered = self.entered.wrapping_add(1),
            record::RETURN => {
                one(2, self.entered & u64::from(u32::MAX));
            }
            _ => {}
        }
    }
}

fn is_chained(head: &[u8], word: usize) -> bool {
    times(head).contains(&word) || head[4] == record::RETURN && word == 2
}

/// The records of a chunk whose first call has this number on its thread, as columns. None if there are too
/// many different ones.
pub(super) fn encode(records: &[u8], first_call: u64) -> Option<Vec<u8>> {
    let mut bytes = records.to_vec();
    let (mut groups, mut which, mut known) = (Vec::<Group>::new(), Vec::<u16>::new(), HashMap::new());
    let mut chain = Chain::from(first_call);
    let mut at = 0usize;
    while let Some(head) = bytes.get(at..at + WORD) {
        let head: [u8; WORD] = head.try_into().expect("a word");
        let size = u32_at(&head, 0) as usize;
        if size < WORD || !size.is_multiple_of(WORD) || size > bytes.len() - at {
            break;
        }
        let index = match known.get(&head) {
            Some(index) => *index,
            None => {
                let index = u16::try_from(groups.len()).ok()?;
                groups.push(Group { head, at: Vec::new() });
                known.insert(head, index);
                index
            }
        };
        which.push(index);
        groups[index as usize].at.push(at);
        chain.pass(&mut bytes, at, |word, by| (word.wrapping_sub(by), word));
        at += size;
    }
    let mut out = Vec::with_capacity(most(records.len()));
    for number in [groups.len(), which.len(), bytes.len() - at, 0] {
        out.extend(u32::try_from(number).ok()?.to_le_bytes());
    }
    groups.iter().for_each(|group| out.extend(group.head));
    out.extend(which.iter().map(|index| *index as u8));
    out.extend(which.iter().map(|index| (index >> 8) as u8));
    let (mut masks, mut planes) = (Vec::new(), Vec::new());
    for group in &groups {
        for word in 1..group.words() {
            let own = is_chained(&group.head, word);
            let mut before = 0;
            let column: Vec<u64> = group
                .at
                .iter()
                .map(|at| {
                    let value = u64_at(&bytes, at + word * WORD);
                    let stored = if own { value } else { value.wrapping_sub(before) };
                    before = value;
                    stored
                })
                .collect();
            let any = column.iter().fold(0, |any, value| any | value).to_le_bytes();
            let used = (0..WORD).filter(|byte| any[*byte] != 0);
            masks.push(used.clone().fold(0u8, |mask, byte| mask | 1 << byte));
            for byte in used {
                planes.extend(column.iter().map(|value| (value >> (8 * byte)) as u8));
            }
        }
    }
    out.extend(masks);
    out.extend(planes);
    out.extend(&bytes[at..]);
    Some(out)
}

/// The `length` bytes of records that these columns are of; none if they are of no such records.
pub(super) fn back(columns: &[u8], first_call: u64, length: usize) -> Option<Vec<u8>> {
    let number = |at| Some(u32_at(columns.get(..FIXED)?, at) as usize);
    let (heads, records, rest) = (number(0)?, number(4)?, number(8)?);
    let mut left = Left(&columns[FIXED..]);
    let heads = left.take(heads.checked_mul(WORD)?)?;
    let mut groups: Vec<Group> =
        heads.chunks_exact(WORD).map(|head| Group { head: head.try_into().expect("a word"), at: Vec::new() }).collect();
    let (low, high) = (left.take(records)?, left.take(records)?);
    let mut out = Vec::new();
    out.try_reserve_exact(length).ok()?;
    out.resize(length, 0);
    let mut at = 0usize;
    for (low, high) in low.iter().zip(high) {
        let group = groups.get_mut(u16::from_le_bytes([*low, *high]) as usize)?;
        let size = u32_at(&group.head, 0) as usize;
        if size < WORD || !size.is_multiple_of(WORD) {
            return None;
        }
        out.get_mut(at..at.checked_add(size)?)?[..WORD].copy_from_slice(&group.head);
        group.at.push(at);
        at += size;
    }
    // Of one that no record has, nothing is stored.
    groups.retain(|group| !group.at.is_empty());
    let masks = left.take(groups.iter().map(|group| group.words() - 1).sum())?;
    let mut masks = masks.iter();
    for group in &groups {
        for word in 1..group.words() {
            let mask = *masks.next()?;
            column(&mut out, group, word, mask, &mut left)?;
        }
    }
    let mut chain = Chain::from(first_call);
    let mut place = 0;
    while place < at {
        let size = u32_at(&out, place) as usize;
        chain.pass(&mut out, place, |stored, by| {
            let real = stored.wrapping_add(by);
            (real, real)
        });
        place += size;
    }
    out.get_mut(at..).filter(|tail| tail.len() == rest)?.copy_from_slice(left.take(rest)?);
    left.0.is_empty().then_some(out)
}

/// Puts one word of all records of a group into its place.
fn column(out: &mut [u8], group: &Group, word: usize, mask: u8, left: &mut Left) -> Option<()> {
    if mask == 0 {
        return Some(());
    }
    let mut planes: [&[u8]; WORD] = [&[]; WORD];
    for byte in (0..WORD).filter(|byte| mask & 1 << byte != 0) {
        planes[byte] = left.take(group.at.len())?;
    }
    let own = is_chained(&group.head, word);
    let mut before = 0u64;
    for (index, at) in group.at.iter().enumerate() {
        let value = u64::from_le_bytes(planes.map(|plane| plane.get(index).copied().unwrap_or(0)));
        before = if own { value } else { before.wrapping_add(value) };
        out[at + word * WORD..][..WORD].copy_from_slice(&before.to_le_bytes());
    }
    Some(())
}

/// What has not been read.
struct Left<'a>(&'a [u8]);

impl<'a> Left<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }
}
