//! Words that are addresses, in the bytes of a call: in payloads, and in kernel arguments.

use crate::base::addresses::looks_like_address;
use crate::call::build::Builder;
use crate::memory::buffer::{Payload, Refusal};
use crate::memory::translate::Tables;
use crate::memory::words::{Layout, Word, Words};
use crate::plan::Plan;
use std::borrow::Cow;
use trace::api::copies::Region;
use trace::api::roles::Field;
use trace::api::types::{Form, Kind};
use trace::base::bytes::u64_at;

/// Where in one argument an address may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Addresses {
    /// In this 8-byte word alone, or in none.
    Whole,
    /// Anywhere: a struct, or arguments whose sizes are not known.
    Anywhere,
    Nowhere,
}

/// Told by sizes alone: where code declares some parameters to be pointers, others may take addresses as
/// integers. (Of nvcc 13.0's machine code and text none does: `parameters --pointers` on the images of
/// `scripts/gpu-test`.)
fn addresses(size: usize) -> Addresses {
    match size {
        0..8 => Addresses::Nowhere,
        8 => Addresses::Whole,
        _ => Addresses::Anywhere,
    }
}

impl Builder<'_, '_> {
    /// Such a word.
    pub(crate) fn word(&mut self, value: u64) -> u64 {
        let bytes = value.to_le_bytes();
        let (live, words) = self.session.placement.to_live(Cow::Borrowed(&bytes), Layout::dense(0));
        self.tally.words.add(words);
        u64_at(&live, 0)
    }

    /// How words lie in host bytes that parameter `name` copies to or from the device.
    pub(crate) fn layout(&self, name: &str, host: &Region) -> Layout {
        let is_other_side = |param: &&Field| param.name != name && matches!(param.ty.form, Form::Address);
        let device = self.function.params.iter().find(is_other_side).and_then(|param| self.call.argument(param.name));
        Layout::rows(host, device.unwrap_or(host.address))
    }

    /// A payload for the replay's device.
    pub(crate) fn payload<'b>(&mut self, bytes: Payload<'b>, layout: Layout) -> Result<Payload<'b>, Refusal> {
        let (moved, words) = self.session.placement.moved_words(&bytes, layout);
        self.tally.words.add(words);
        bytes.with_words(&moved)
    }

    /// What must be rewritten in arguments that lie as the device has them. Offset and new word.
    pub(crate) fn packed_arguments(&mut self, bytes: &[u8]) -> Vec<(usize, u64)> {
        let is_function = |param: &&Field| matches!(param.ty.form, Form::Handle(Kind::Function));
        let handle = self.function.params.iter().find(is_function).and_then(|param| self.call.argument(param.name));
        let kernel = handle.and_then(|handle| self.session.trace.kernel(handle));
        let params = kernel.and_then(|kernel| kernel.params.as_deref()).unwrap_or_default();
        // A handle may be another function's later, with other parameters.
        let end = params.iter().map(|(offset, size)| offset + size).max();
        if end.is_none_or(|end| end as usize != bytes.len()) {
            return self.argument(bytes);
        }
        let mut found = Vec::new();
        for (offset, size) in params {
            let (offset, size) = (*offset as usize, *size as usize);
            let inside = self.argument(&bytes[offset..offset + size]);
            found.extend(inside.into_iter().map(|(at, live)| (offset + at, live)));
        }
        found
    }

    /// What must be rewritten in one argument, or in several whose sizes are not known: addresses of memory
    /// that is elsewhere, and objects that kernels use by value. Offset and new word.
    pub(crate) fn argument(&mut self, bytes: &[u8]) -> Vec<(usize, u64)> {
        let (session, place) = (self.session, &self.session.placement);
        let kind = addresses(bytes.len());
        if kind == Addresses::Nowhere {
            return Vec::new();
        }
        let (mut found, mut aligned, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        let mut words = Words::default();
        let host = bytes.chunks_exact(8).map(|word| u64_at(word, 0));
        self.frame.sources.extend(host.filter_map(|value| place.host_around(value)));
        let tables = place.translation.tables();
        let at = |at: usize| bytes.get(at..at + 8).map(|word| u64_at(word, 0));
        for offset in (0..bytes.len()).step_by(8) {
            let Some(value) = at(offset) else { break };
            let object = || if kind == Addresses::Whole { session.objects.in_arguments(value) } else { None };
            match place.word(&tables, value) {
                Word::Moved(live) => {
                    words.arguments += 1;
                    found.push((offset, live));
                }
                Word::Left => words.left += 1,
                Word::Same => match object() {
                    Some(live) => found.push((offset, live)),
                    None if is_known(session.plan, &tables, value) => aligned.push(offset),
                    None if looks_like_address(value) => lost.push(offset),
                    None => {}
                },
            }
        }
        aligned.extend(found.iter().map(|(offset, _)| *offset));
        // Packed structs align addresses to 4 bytes, too. The halves of an aligned one belong to no other.
        for offset in (4..bytes.len()).step_by(8) {
            let overlaps = |at: &usize| at + 8 > offset && offset + 8 > *at;
            let Some(value) = at(offset).filter(|value| is_known(session.plan, &tables, *value)) else { continue };
            if aligned.iter().any(overlaps) {
                continue;
            }
            lost.retain(|at| !overlaps(at));
            if let Word::Moved(live) = place.word(&tables, value) {
                words.arguments += 1;
                found.push((offset, live));
            }
        }
        drop(tables);
        self.tally.unresolved_pointers += lost.len() as u64;
        self.tally.words.add(words);
        found
    }
}

fn is_known(plan: &Plan, tables: &Tables, value: u64) -> bool {
    plan.addresses.device.contains(value) || plan.addresses.host.contains(value) || tables.live(value).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_arguments_hold_no_addresses() {
        assert_eq!([4, 8, 16].map(addresses), [Addresses::Nowhere, Addresses::Whole, Addresses::Anywhere]);
    }
}
