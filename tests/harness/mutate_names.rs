//! Mutations of texts: non-ASCII words in place of names, and bytes that are no text at all.

use crate::forge::Forge;
use crate::mutate::{Random, records};
use std::ops::Range;
use trace::file::record::nccl::COMMUNICATOR;
use trace::file::record::{ANNOTATION, ATTACHMENT, DEVICE, ENTRY, HEAD, KERNEL, LOSS, NAMED, PROFILE, RETURN, THREAD};

/// Letters of two to four bytes, control characters, what turns the direction of a line, what cannot be seen,
/// what joins its neighbours; and bytes that are no UTF-8: a character cut short, one written too long, half of
/// a pair.
const WORDS: &[&[u8]] = &[
    "\u{e4}\u{f6}\u{fc}\u{df}".as_bytes(),
    "\u{6838}\u{5fc3}".as_bytes(),
    "\u{1f600}".as_bytes(),
    "\u{9b}31m".as_bytes(),
    "\u{85}\u{7f}".as_bytes(),
    "\u{202e}\u{2066}".as_bytes(),
    "\u{200b}\u{feff}".as_bytes(),
    "e\u{301}\u{302}".as_bytes(),
    "\x1b]0;x\x07\n".as_bytes(),
    b"\xe6\xa0",
    b"\xc0\xaf",
    b"\xed\xa0\x80",
    b"\xff\xfe",
];

/// Kinds of records that hold text; of a call names that it was given.
const SPEAKING: &[u8] = &[ENTRY, RETURN, THREAD, KERNEL, DEVICE, LOSS, ANNOTATION, PROFILE, NAMED, COMMUNICATOR];

/// Puts such words into names, at random. Lengths stay. What was done, in words.
pub fn mutate_names(forge: &mut Forge, random: &mut Random) -> Vec<String> {
    let mut done = Vec::new();
    let spoken: Vec<Range<usize>> = records(forge)
        .into_iter()
        .filter(|record| SPEAKING.contains(&record.kind))
        .flat_map(|record| names(forge.bytes(), record.at + HEAD..record.at + record.size))
        .collect();
    for _ in 0..4 + random.below(12) {
        let Some(name) = spoken.get(random.below(spoken.len())).cloned() else { break };
        let word = WORDS[random.below(WORDS.len())];
        let at = name.start + random.below(name.len());
        let word = &word[..word.len().min(name.end - at)];
        forge.put(at, word);
        done.push(format!("at {at}: {}", word.escape_ascii()));
    }
    if random.below(2) == 0 {
        let word = String::from_utf8_lossy(WORDS[random.below(WORDS.len())]).into_owned();
        forge.introduce(|preamble| {
            let put = |text: &mut String| {
                let len = text.len();
                *text = format!("{word}{text}")
                    .chars()
                    .scan(0, |used, c| {
                        *used += c.len_utf8();
                        (*used <= len).then_some(c)
                    })
                    .collect();
            };
            put(&mut preamble.host);
            put(&mut preamble.program);
            preamble.command_line.iter_mut().for_each(put);
            preamble.environment.iter_mut().for_each(|(_, value)| put(value));
        });
        done.push(format!("the preambles begin names with {word:?}"));
    }
    forge.reseal();
    done
}

/// Where letters stand side by side.
fn names(bytes: &[u8], within: Range<usize>) -> Vec<Range<usize>> {
    const SHORTEST: usize = ATTACHMENT;
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"_ ./-:<>(),".contains(byte);
    let (mut found, mut at) = (Vec::new(), within.start);
    for name in bytes[within].split(|byte| !is_letter(byte)) {
        if name.len() >= SHORTEST {
            found.push(at..at + name.len());
        }
        at += name.len() + 1;
    }
    found
}
