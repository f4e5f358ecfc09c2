//! The same bytes to the same place again: what the device had already.
//!
//! A transfer is *redundant* if nothing between the two can have written there, as far as the trace tells: no
//! copy, no fill, no launch that was given an address within the allocation, no graph. If there was one, it
//! is only *repeated*: the kernel may have read what it was given, or changed it.

use super::copy::Transfer;
use crate::report::walk::Step;
use foldhash::HashMap;
use std::collections::BTreeMap;
use std::ops::Range;
use trace::api::roles::{Class, Role};
use trace::hash::Hash;

/// What the host gave last.
struct Last {
    bytes: u64,
    hash: Hash,
    call: u64,
}

/// Transfers to one place of one size.
#[derive(Debug, Default)]
pub struct Again {
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
pub struct Repeats<'t> {
    /// By destination.
    last: BTreeMap<u64, Last>,
    /// From the first of them to the last, until they change.
    reach: Option<Range<u64>>,
    places: Places,
    /// The latest launch that was given an address in the allocation that begins there.
    launched_on: HashMap<u64, u64>,
    /// The latest call that may have written anywhere.
    anywhere: u64,
    pub found: HashMap<(u64, u64, &'t str), Again>,
}

/// Where the allocations begin that hold addresses which launches were given lately: they are given the same
/// again and again, and to look for an allocation takes longer than all else here.
struct Places {
    /// Each address where its bits put it; right as long as no allocation has come or gone.
    known: [(u64, Option<u64>); Places::COUNT],
    ranges: u64,
}

impl Places {
    const COUNT: usize = 256;
    const NONE: [(u64, Option<u64>); Places::COUNT] = [(0, None); Places::COUNT];

    fn of(&mut self, address: u64, step: &Step) -> Option<u64> {
        let ranges = step.objects.changes_of_ranges();
        if std::mem::replace(&mut self.ranges, ranges) != ranges {
            self.known = Places::NONE;
        }
        let at = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize;
        if self.known[at].0 != address {
            self.known[at] = (address, step.objects.range(address).map(|range| range.base));
        }
        self.known[at].1
    }
}

impl Default for Places {
    fn default() -> Places {
        Places { known: Places::NONE, ranges: 0 }
    }
}

/// Places that are told apart.
const PLACES: usize = 100_000;

impl<'t> Repeats<'t> {
    /// A transfer from the host. What it is, if it brings what was brought before.
    pub fn transfer(&mut self, step: &Step<'_, 't>, copy: &Transfer, ns: i64) -> Option<bool> {
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
        let launched = range.and_then(|range| self.launched_on.get(&range.base)).copied().unwrap_or(0);
        let is_redundant = launched.max(self.anywhere) < before;
        let key = (to, copy.bytes, step.call.name());
        if step.selected && (self.found.len() < PLACES || self.found.contains_key(&key)) {
            let again = self.found.entry(key).or_insert_with(|| Again {
                original: before,
                place: match range {
                    Some(range) if range.base == to => format!("{}#{}", range.label, range.number),
                    Some(range) => format!("{}#{}+{:#x}", range.label, range.number, to - range.base),
                    None => format!("{to:#x}"),
                },
                ..Again::default()
            });
            *(if is_redundant { &mut again.redundant } else { &mut again.repeated }) += 1;
            again.time += if is_redundant { ns } else { 0 };
            again.latest = number;
        }
        step.selected.then_some(is_redundant)
    }

    /// What lies there now is not from the host, or not known.
    pub fn overwritten(&mut self, step: &Step, copy: &Transfer) {
        match copy.destination {
            Some(to) if copy.is_dense => self.written(to, copy.bytes),
            // Rows, with gaps between them.
            Some(_) => self.anywhere = step.call.number,
            None => {}
        }
    }

    /// Follows every call that is no copy: what it may have written is known no more.
    pub fn see(&mut self, step: &Step<'_, 't>) {
        if self.last.is_empty() {
            return;
        }
        for base in step.objects.given_up() {
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
                        let bytes = trace::walk::reach(function.params, index, 0, &view).unwrap_or(u64::MAX);
                        self.written(step.call.argument(param.name).unwrap_or(0), bytes);
                    }
                }
                // Operations in an array, some of which write.
                let is_batch = function.name.contains("Batch");
                if is_batch && !writes {
                    self.anywhere = step.call.number;
                }
            }
            _ => {}
        }
    }

    fn launch(&mut self, step: &Step) {
        let mut given = step.call.given().peekable();
        if given.peek().is_none() {
            self.anywhere = step.call.number;
            return;
        }
        let Some(reach) = self.reach() else { return };
        for word in given.flat_map(|(_, packed)| packed.chunks_exact(8)) {
            let word = u64::from_le_bytes(word.try_into().expect("8 bytes"));
            if let Some(base) = reach.contains(&word).then(|| self.places.of(word, step)).flatten() {
                self.launched_on.insert(base, step.call.number);
            }
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

/// Argument words alone: extents of what a copy or fill writes need no memory.
struct Words<'x>(&'x [u8]);

impl trace::walk::View for Words<'_> {
    fn load(&self, offset: u32, size: u32) -> Option<u64> {
        let mut word = [0; 8];
        word.get_mut(..size as usize)?.copy_from_slice(self.0.get(offset as usize..)?.get(..size as usize)?);
        Some(u64::from_le_bytes(word))
    }

    fn at(&self, _: u64, _: u32) -> Option<u64> {
        None
    }
}
