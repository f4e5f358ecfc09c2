//! Mutations of packed traces, with valid seals: the place of a packed segment in the trace, its method, the
//! bytes that are unpacked, the length of the file.

use crate::forge::Forge;
use crate::mutate::Random;
use trace::base::hash::checksum;
use trace::file::segment::{HEADER, Kind, PAGE};

const KINDS: [Kind; 5] = [Kind::Preamble, Kind::Chunk, Kind::Blob, Kind::Footer, Kind::Free];

/// Changes one thing, at random. What was done, in words.
pub fn mutate_packed(forge: &mut Forge, random: &mut Random) -> String {
    let all = KINDS.map(|kind| forge.segments(kind)).concat();
    let (at, old) = all[random.below(all.len())];
    let other = all[random.below(all.len())].1;
    let mut new = old;
    let word = [0, 1, 2, 3, PAGE, 1 << 31, 1 << 40, 1 << 62, u64::MAX][random.below(9)];
    match random.below(8) {
        0 => {
            let len = 1 + random.below(forge.bytes().len() - 1);
            forge.truncate(len);
            return format!("cut off at {len}");
        }
        1 => {
            new.id =
                [other.id, old.id + (1 << 64), old.id - 1, u128::from(word) << 64 | u128::from(word)][random.below(4)]
        }
        2 => new.thread = [0, 1, old.thread + 1, u32::MAX][random.below(4)],
        3 => new.size = [old.size + PAGE, other.size, 1 << 40, 1 << 62][random.below(4)],
        4 => new.kind = KINDS[random.below(5)],
        5 => new.length = [old.length - 1, old.length + 1, other.length, word][random.below(4)],
        // The method, and the bytes that are meant.
        6 => forge.put(at + HEADER + 8 * random.below(2), &word.to_le_bytes()),
        // Headers, or what is packed.
        _ => {
            for _ in 0..1 + random.below(4) {
                let within = 16 + random.below(old.length as usize - 16);
                forge.put(at + HEADER + within, &[random.word() as u8]);
            }
        }
    }
    let content = forge.bytes().get(at + HEADER..).and_then(|rest| rest.get(..new.length as usize));
    new.seal = content.map_or(new.seal, checksum);
    forge.put(at, &new.encode());
    format!("the packed segment at {at}, {old:?}, becomes {new:?}, with {word:#x}")
}
