//! Redundant and repeated copies: the same bytes to the same destination again.
//!
//! A transfer is *redundant* if nothing between the two can have written there, as far as the trace shows: no
//! copy, no fill, no launch with an address within the allocation, no graph. If there was one, it is only
//! *repeated*: the kernel may have read its inputs, or changed them.

use super::copy::Transfer;
use crate::report::walk::Step;
use foldhash::HashMap;
use std::collections::BTreeMap;
use std::ops::Range;
use trace::Function;
use trace::api::roles::{Class, Role};
use trace::base::hash::Hash;

/// What the host gave last.
struct Last {
    bytes: u64,
    hash: Hash,
    call: u64,
}

/// Transfers of one size to one destination.
#[derive(Debug, Default)]
pub(super) struct RepeatedTransfers {
    pub redundant: u64,
    pub repeated: u64,
    /// Nanoseconds that the redundant ones took.
    pub time: i64,
    pub original: u64,
    pub latest: u64,
    /// The allocation, as `dump` names it.
    pub place: String,
}

#[derive(Default)]
pub(super) struct Repeats<'t> {
    /// By destination.
    last: BTreeMap<u64, Last>,
    /// From the first of them to the last, until they change.
    reach: Option<Range<u64>>,
    places: Places,
    /// The latest call that may have written anywhere.
    anywhere: u64,
    pub found: HashMap<(u64, u64, &'t str), RepeatedTransfers>,
}

/// By allocation the latest launch that was given an address in it. Launches are given the same addresses
/// again and again, and to look for an allocation takes longer than all else here.
struct Places {
    /// Where the allocation that begins there stands in `launched`.
    begins: HashMap<u64, usize>,
    launched: Vec<u64>,
    /// Addresses that launches were given lately, each where its bits put it.
    lately: [Lately; Places::COUNT],
}

#[derive(Clone, Copy, Default)]
struct Lately {
    address: u64,
    /// Right as long as no allocation has come or gone (`Objects::changes_of_ranges`).
    ranges: u64,
    /// In `launched`; none if no allocation holds it.
    at: Option<usize>,
}

impl Places {
    const COUNT: usize = 256;

    /// A launch was given this word.
    fn record_argument(&mut self, address: u64, step: &Step) {
        let ranges = step.objects.changes_of_ranges();
        let slot = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize;
        let lately = self.lately[slot];
        let at = if (lately.address, lately.ranges) == (address, ranges) {
            lately.at
        } else {
            let at = step.objects.range(address).map(|range| self.index_of(range.base));
            self.lately[slot] = Lately { address, ranges, at };
            at
        };
        if let Some(at) = at {
            self.launched[at] = step.call.number;
        }
    }

    fn index_of(&mut self, begin: u64) -> usize {
        *self.begins.entry(begin).or_insert_with(|| {
            self.launched.push(0);
            self.launched.len() - 1
        })
    }

    /// 0 if there was none.
    fn launched_on(&self, begin: u64) -> u64 {
        self.begins.get(&begin).map_or(0, |at| self.launched[*at])
    }
}

impl Default for Places {
    fn default() -> Places {
        Places { begins: HashMap::default(), launched: Vec::new(), lately: [Lately::default(); Places::COUNT] }
    }
}

/// Places that are told apart.
const PLACES: usize = 100_000;

impl<'t> Repeats<'t> {
    /// A transfer from the host. What it is, if it brings what was brought before.
    pub(super) fn transfer(&mut self, step: &Step<'_, 't>, copy: &Transfer, ns: i64) -> Option<bool> {
        let to = copy.destination?;
        let Some(hash) = copy.hash.filter(|_| copy.is_dense && copy.bytes > 0) else {
            self.overwritten(step, copy);
            return None;
        };
        let number = step.call.number;
        let now = Last { bytes: copy.bytes, hash, call: number };
        let before = match self.last.get_mut(&to) {
            // Nothing else lies there.
            Some(last) if last.bytes == now.bytes => std::mem::replace(last, now),
            _ => {
                self.written(to, copy.bytes);
                self.last.insert(to, now);
                self.reach = None;
                return None;
            }
        };
        let before = Some(before).filter(|last| last.hash == hash)?.call;
        let range = step.objects.range(to);
        let launched = range.map_or(0, |range| self.places.launched_on(range.base));
        let is_redundant = launched.max(self.anywhere) < before;
        let key = (to, copy.bytes, step.call.name());
        if step.selected && (self.found.len() < PLACES || self.found.contains_key(&key)) {
            let again = self.found.entry(key).or_insert_with(|| RepeatedTransfers {
                original: before,
                place: match range {
                    Some(range) if range.base == to => format!("{}#{}", range.label, range.number),
                    Some(range) => format!("{}#{}+{:#x}", range.label, range.number, to - range.base),
                    None => format!("{to:#x}"),
                },
                ..RepeatedTransfers::default()
            });
            *(if is_redundant { &mut again.redundant } else { &mut again.repeated }) += 1;
            again.time += if is_redundant { ns } else { 0 };
            again.latest = number;
        }
        step.selected.then_some(is_redundant)
    }

    /// What lies there now is not from the host, or not known.
    pub(super) fn overwritten(&mut self, step: &Step, copy: &Transfer) {
        match copy.destination {
            Some(to) if copy.is_dense => self.written(to, copy.bytes),
            // Rows, with gaps between them.
            Some(_) => self.anywhere = step.call.number,
            None => {}
        }
    }

    /// Whether a call of this function may write somewhere.
    pub(super) fn sees(function: &Function) -> bool {
        let writes = || function.params.iter().any(|param| matches!(param.role, Role::Writes(_)));
        match function.class {
            Class::launch => true,
            Class::submit => writes() || is_batch(function),
            _ => false,
        }
    }

    /// Follows every call that is no copy: what it may have written is known no more.
    pub(super) fn follow(&mut self, step: &Step<'_, 't>) {
        if self.last.is_empty() {
            return;
        }
        for base in step.objects.freed_ranges() {
            let len = step.objects.range(*base).map_or(1, |range| range.len);
            self.written(*base, len);
        }
        let Some(function) = step.function else { return };
        match function.class {
            Class::launch => self.launch(step),
            Class::submit => {
                let mut writes = false;
                for (index, param) in function.params.iter().enumerate() {
                    if let Role::Writes(_) = param.role {
                        writes = true;
                        let view = Words(step.call.argument_bytes());
                        let bytes = trace::api::walk::reach(function.params, index, 0, &view).unwrap_or(u64::MAX);
                        self.written(step.call.argument(param.name).unwrap_or(0), bytes);
                    }
                }
                if is_batch(function) && !writes {
                    self.anywhere = step.call.number;
                }
            }
            _ => {}
        }
    }

    fn launch(&mut self, step: &Step) {
        let Some(reach) = self.reach() else { return };
        let mut is_told = false;
        for (_, packed) in step.call.kernel_arguments() {
            is_told = true;
            for word in packed.as_chunks::<8>().0 {
                let word = u64::from_le_bytes(*word);
                if reach.contains(&word) {
                    self.places.record_argument(word, step);
                }
            }
        }
        if !is_told {
            self.anywhere = step.call.number;
        }
    }

    /// Addresses that may lie in an allocation to which something was transferred.
    fn reach(&mut self) -> Option<Range<u64>> {
        if self.reach.is_none() {
            let ((first, _), (end, last)) = (self.last.first_key_value()?, self.last.last_key_value()?);
            // One before the first transfer's may do so, too.
            self.reach = Some(first.saturating_sub(1 << 40)..end.saturating_add(last.bytes));
        }
        self.reach.clone()
    }

    /// Something else is there now.
    fn written(&mut self, at: u64, bytes: u64) {
        let end = at.saturating_add(bytes.max(1));
        let mut over: Vec<u64> = self.last.range(at..end).map(|(at, _)| *at).collect();
        let before = self.last.range(..at).next_back();
        over.extend(before.filter(|(start, last)| start.saturating_add(last.bytes) > at).map(|(start, _)| *start));
        for start in over {
            self.last.remove(&start);
            self.reach = None;
        }
    }
}

/// Operations in an array, some of which write.
fn is_batch(function: &Function) -> bool {
    function.name.contains("Batch")
}

/// Argument words alone: extents of what a copy or fill writes need no memory.
struct Words<'x>(&'x [u8]);

impl trace::api::walk::View for Words<'_> {
    fn load(&self, offset: u32, size: u32) -> Option<u64> {
        let mut word = [0; 8];
        word.get_mut(..size as usize)?.copy_from_slice(self.0.get(offset as usize..)?.get(..size as usize)?);
        Some(u64::from_le_bytes(word))
    }

    fn read_word(&self, _: u64, _: u32) -> Option<u64> {
        None
    }
}
