//! Mutations of the structure around records: preambles, headers of segments, the footer, the length of the
//! file. Checksums are corrected.

use crate::forge::Forge;
use crate::mutate::{Random, records};
use trace::base::hash::checksum;
use trace::file::segment::{HEADER, Header, Kind, PAGE};

/// Changes one thing, at random, in a trace that is otherwise sound. What was done, in words.
pub fn mutate_segments(forge: &mut Forge, random: &mut Random) -> String {
    match random.below(8) {
        0 => rename_function(forge, random),
        1 | 2 => change_preamble(forge, random),
        3 => change_footer(forge, random),
        4 => {
            let len = 1 + random.below(forge.bytes().len() - 1);
            let len = if random.below(2) == 0 { len } else { len.next_multiple_of(PAGE as usize) };
            forge.truncate(len);
            format!("cut off at {len}")
        }
        _ => change_header(forge, random),
    }
}

const KINDS: [Kind; 5] = [Kind::Preamble, Kind::Chunk, Kind::Blob, Kind::Footer, Kind::Free];

/// Another name, or another number of words, for a function that was called.
fn rename_function(forge: &mut Forge, random: &mut Random) -> String {
    let called: Vec<usize> = records(forge).iter().map(|record| record.function.into()).collect();
    let [one, other] = [(); 2].map(|()| called[random.below(called.len())]);
    let (swaps_names, words) = (random.below(2) == 0, random.below(20) as u16);
    forge.introduce(|preamble| {
        if swaps_names && one != other {
            let name = std::mem::take(&mut preamble.functions[one].0);
            let name = std::mem::replace(&mut preamble.functions[other].0, name);
            preamble.functions[one].0 = name;
        } else {
            preamble.functions[one].1 = words;
        }
    });
    if swaps_names {
        format!("functions {one} and {other} change names")
    } else {
        format!("function {one} has {words} words")
    }
}

/// Bytes of both preambles: mostly behind the functions, where everything else stands.
fn change_preamble(forge: &mut Forge, random: &mut Random) -> String {
    let preambles = forge.segments(Kind::Preamble);
    let length = preambles[0].1.length as usize;
    let from = if random.below(4) == 0 { 0 } else { length.saturating_sub(600) };
    let changes: Vec<(usize, u8)> =
        (0..1 + random.below(4)).map(|_| (from + random.below(length - from), byte(random))).collect();
    for (offset, header) in preambles {
        change_content(forge, offset, header, &changes);
    }
    format!("bytes of the preambles become {changes:?}")
}

fn change_footer(forge: &mut Forge, random: &mut Random) -> String {
    let Some((offset, header)) = forge.segments(Kind::Footer).pop() else { return "there is no footer".into() };
    let changes: Vec<(usize, u8)> =
        (0..1 + random.below(4)).map(|_| (random.below(header.length as usize), byte(random))).collect();
    change_content(forge, offset, header, &changes);
    format!("bytes of the footer become {changes:?}")
}

/// One that bincode takes for a small number, for the beginning of a long one, or for anything.
fn byte(random: &mut Random) -> u8 {
    match random.below(3) {
        0 => random.below(8) as u8,
        1 => 250 + random.below(6) as u8,
        _ => random.word() as u8,
    }
}

fn change_content(forge: &mut Forge, offset: usize, header: Header, changes: &[(usize, u8)]) {
    let start = offset + HEADER;
    for (at, byte) in changes.iter().filter(|(at, _)| *at < header.length as usize) {
        forge.put(start + at, &[*byte]);
    }
    let seal = checksum(&forge.bytes()[start..start + header.length as usize]);
    forge.put(offset, &Header { seal, ..header }.encode());
}

/// One field of one header.
fn change_header(forge: &mut Forge, random: &mut Random) -> String {
    let all = KINDS.map(|kind| forge.segments(kind)).concat();
    let (offset, old) = all[random.below(all.len())];
    let other = all[random.below(all.len())].1;
    let mut new = old;
    match random.below(9) {
        0 => new.kind = KINDS[random.below(5)],
        1 => new.thread = [1, 0x7fff, u32::MAX, other.thread][random.below(4)],
        2 => new.size = [old.size + PAGE, old.size.max(2 * PAGE) - PAGE, other.size, 1 << 62][random.below(4)],
        3 => new.id = [0, 1, old.id + (1 << 64), other.id, u128::MAX][random.below(5)],
        4 | 5 => new.length = [0, old.length.saturating_sub(8), old.length + 8, old.room(), u64::MAX][random.below(5)],
        // A chunk that nobody closed.
        6 | 7 => new.seal = 0,
        _ => new.version = new.version.wrapping_add(1 + random.below(2) as u8),
    }
    forge.put(offset, &new.encode());
    format!("the header at {offset}, {old:?}, becomes {new:?}")
}
