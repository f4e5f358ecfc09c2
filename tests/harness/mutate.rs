//! Mutated traces: mutations that know the format correct lengths, hashes and checksums, so that they pass
//! the reader's own checks.

use crate::forge::Forge;
use std::ops::Range;
use trace::file::record::{ENTRY, OPTIONAL, RETURN};
use trace::file::segment::{HEADER, Kind};

/// Random numbers that are the same for a seed everywhere (SplitMix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.word() % end.max(1) as u64) as usize
    }
}

/// The seeds of a run of the tests: so many in every one, or as FUZZ_SEED (the first) and FUZZ_RUNS say.
pub fn seeds(usual: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = number("FUZZ_SEED").unwrap_or(1);
    first..first + number("FUZZ_RUNS").unwrap_or(usual)
}

/// A record's place in the file, by offset of its head, and the contents of the head.
#[derive(Debug, Clone, Copy)]
pub struct Record {
    pub at: usize,
    pub size: usize,
    pub kind: u8,
    pub function: u16,
}

const HEAD: usize = 8;

/// All records of all chunks.
pub fn records(forge: &Forge) -> Vec<Record> {
    let mut found = Vec::new();
    for (offset, header) in forge.segments(Kind::Chunk) {
        let (mut at, end) = (offset + HEADER, offset + HEADER + header.length as usize);
        while at + HEAD <= end {
            let head = &forge.bytes()[at..at + HEAD];
            let size = u32::from_le_bytes(head[..4].try_into().expect("4 bytes")) as usize;
            if size < HEAD || at + size > end {
                break;
            }
            let function = u16::from_le_bytes([head[6], head[7]]);
            found.push(Record { at, size, kind: head[4], function });
            at += size;
        }
    }
    found
}

/// Changes some things of a trace, at random, in records that `is_wanted`. What was done, in words.
pub fn mutate(forge: &mut Forge, random: &mut Random, is_wanted: impl Fn(&Record) -> bool) -> Vec<String> {
    let wanted: Vec<Record> = records(forge).into_iter().filter(is_wanted).collect();
    let done = (0..1 + random.below(3)).map(|_| one(forge, random, &wanted)).collect();
    forge.reseal();
    done
}

fn one(forge: &mut Forge, random: &mut Random, records: &[Record]) -> String {
    let record = records[random.below(records.len())];
    let Record { at, size, kind, function } = record;
    match random.below(16) {
        // Another function with these words.
        0 => {
            let other = records[random.below(records.len())].function;
            forge.put(at + 6, &other.to_le_bytes());
            format!("at {at}: function {function} becomes {other}")
        }
        // A record that readers pass over: an entry without a return, a kernel that nobody described.
        1 => {
            forge.put(at + 4, &[kind | OPTIONAL]);
            format!("at {at}: a record of kind {kind} is hidden")
        }
        // What the call returned.
        2 | 3 if kind == RETURN && size >= 24 => {
            let result = [0u32, 1, 2, 201, 301, 700, 999][random.below(7)];
            forge.put(at + 20, &result.to_le_bytes());
            format!("at {at}: the result becomes {result}")
        }
        // A byte of data.
        4 | 5 => {
            let place = at + HEAD + random.below(size - HEAD);
            forge.flip_bit(place, random.below(8) as u32);
            format!("at {place}: a bit is turned")
        }
        // A payload or an image.
        6 if !forge.segments(Kind::Blob).is_empty() => {
            let blobs = forge.segments(Kind::Blob);
            let (offset, header) = blobs[random.below(blobs.len())];
            let place = offset + HEADER + random.below(header.length as usize);
            forge.flip_bit(place, random.below(8) as u32);
            format!("at {place}: a bit of a blob is turned")
        }
        // A word: of the arguments, of an attachment's head (its address, its length), of its data.
        _ => {
            let first = if kind == ENTRY || kind == RETURN { 16 } else { HEAD };
            let words = size.saturating_sub(first) / 8;
            if words == 0 {
                return "nothing".into();
            }
            let place = at + first + random.below(words) * 8;
            let old = u64::from_le_bytes(forge.bytes()[place..place + 8].try_into().expect("8 bytes"));
            let new = another(forge, random, records, old);
            forge.put(place, &new.to_le_bytes());
            format!("at {place}: {old:#x} becomes {new:#x}")
        }
    }
}

/// A word in the place of another: a neighbour, an extreme, one from somewhere else in the trace (an address,
/// a length).
fn another(forge: &Forge, random: &mut Random, records: &[Record], old: u64) -> u64 {
    match random.below(12) {
        0 => 0,
        1 => u64::MAX,
        2 => old.wrapping_add(1),
        3 => old.wrapping_sub(1),
        4 => old.wrapping_mul(2),
        5 => old.wrapping_add(1 << random.below(32)),
        6 => old ^ 1 << random.below(64),
        7 => 1 << random.below(48),
        _ => {
            let Record { at, size, .. } = records[random.below(records.len())];
            let place = at + random.below(size / 8) * 8;
            u64::from_le_bytes(forge.bytes()[place..place + 8].try_into().expect("8 bytes"))
        }
    }
}
