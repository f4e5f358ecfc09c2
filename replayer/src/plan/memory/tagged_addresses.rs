//! Addresses that share their word with a tag: a replay translates only plain addresses.
//!
//! This matters only for memory that cannot be placed at its address (module variables, graph memory), so a
//! trace without any is not searched. An address takes the low or the high 48 bits of a word. Other forms
//! (differences, halves in different words, XORs) look like any number, and are not found.

use std::collections::BTreeMap;
use std::ops::Range;
use trace::api::roles::{Class, Role};
use trace::read::call::Content;
use trace::read::host_writes::Written;
use trace::{Call, Function, Trace};

pub(crate) const WHY: &str =
    "words with tag bits hold addresses of module variables or of graph allocations: these are not translated";

const ADDRESS_BITS: u32 = 48;
const ADDRESS: u64 = (1 << ADDRESS_BITS) - 1;

#[derive(Default)]
pub(crate) struct Tagged {
    /// Start to end.
    moving: BTreeMap<u64, u64>,
    bounds: Range<u64>,
    bytes: u64,
}

impl Tagged {
    /// Memory that is likely to be elsewhere in a replay.
    pub(crate) fn moves(&mut self, start: u64, len: u64) {
        let end = start.saturating_add(len);
        if len == 0 || self.moving.get(&start).is_some_and(|known| *known >= end) {
            return;
        }
        self.moving.insert(start, end);
        self.bytes = self.bytes.saturating_add(len);
        let Range { start: first, end: last } = self.bounds;
        self.bounds = if first == last { start..end } else { first.min(start)..last.max(end) };
    }

    /// Whether the call gives the device such words, or the CPU had written some before it.
    pub(crate) fn are_in(&self, trace: &Trace, call: &Call, function: &Function) -> bool {
        let gives_bytes = matches!(function.class, Class::copy | Class::submit | Class::launch | Class::graph);
        if self.moving.is_empty() || !gives_bytes {
            return false;
        }
        let sinks = function.params.iter().filter(|param| matches!(param.role, Role::Sink(_)));
        let sinks: Vec<u64> = sinks.filter_map(|param| call.argument(param.name)).collect();
        let written = call.written().filter(|written: &Written| !written.is_seen());
        let given = call.images().filter(|image| !sinks.contains(&image.address));
        written.flat_map(|written| written.images()).chain(given).any(|image| match image.content {
            Content::Arguments { packed, .. } => self.are_among(packed),
            _ => trace.bytes(&image).is_some_and(|bytes| self.are_among(bytes)),
        })
    }

    /// More than there would be among random bits.
    fn are_among(&self, bytes: &[u8]) -> bool {
        const SURE: f64 = 1e-6;
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
        let found = words.filter(|word| self.is_tagged(*word)).count();
        let by_chance = 2. * (bytes.len() / 8) as f64 * self.bytes as f64 / ADDRESS as f64;
        found as f64 > 64. * by_chance && (found >= 3 || found > 0 && by_chance < SURE)
    }

    fn is_tagged(&self, word: u64) -> bool {
        let holds = |address: u64| {
            self.bounds.contains(&address)
                && self.moving.range(..=address).next_back().is_some_and(|(_, end)| address < *end)
        };
        word > ADDRESS && (holds(word & ADDRESS) || holds(word >> (u64::BITS - ADDRESS_BITS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x7f12_3456_7000;

    fn among(tagged: &Tagged, words: &[u64]) -> bool {
        tagged.are_among(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
    }

    #[test]
    fn a_tag_is_above_or_below() {
        let mut tagged = Tagged::default();
        tagged.moves(AT, 0x100);
        assert!(among(&tagged, &[1, AT | 0x5a << 56]));
        assert!(among(&tagged, &[(AT + 0xf8) << 16 | 3]));
        assert!(!among(&tagged, &[AT, (AT + 0x100) | (0x5a << 56), AT << 17, AT >> 1]), "plain, behind it, or neither");
    }

    #[test]
    fn chance_is_no_tag() {
        let mut tagged = Tagged::default();
        tagged.moves(AT, 1 << 30);
        let mut random = 1u64;
        let mut next = || {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            random ^ random >> 29
        };
        let mut words: Vec<u64> = (0..1 << 20).map(|_| next()).collect();
        assert!(words.iter().any(|word| tagged.is_tagged(*word)), "some are by chance");
        assert!(!among(&tagged, &words));
        words.iter_mut().step_by(256).for_each(|word| *word = (AT + (*word & 0xffff)) | (7 << 60));
        assert!(among(&tagged, &words));
    }
}
