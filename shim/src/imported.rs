//! Memory of other processes that this one has at addresses of its own, where what it holds is to be kept.

use crate::lock::Lock;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::*};

#[derive(Default)]
pub struct Imported {
    /// If it is to be kept.
    is_kept: bool,
    is_any: AtomicBool,
    known: Lock<Known>,
}

#[derive(Default)]
struct Known {
    /// By start: the end, and whether it is mapped, so that what lies beside it may be the same memory.
    memory: BTreeMap<u64, (u64, bool)>,
    /// Physical memory, by its handles.
    handles: BTreeSet<u64>,
}

impl Imported {
    pub fn new(is_kept: bool) -> Imported {
        Imported { is_kept, ..Imported::default() }
    }

    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Whether there may be any.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.is_any.load(Relaxed)
    }

    /// Opened by a handle of its address.
    pub fn opened(&self, range: Range<u64>) {
        self.add(range, false);
    }

    pub fn imported(&self, handle: u64) {
        if self.is_kept {
            self.known.lock().handles.insert(handle);
        }
    }

    pub fn released(&self, handle: u64) {
        if self.is_kept {
            self.known.lock().handles.remove(&handle);
        }
    }

    /// Memory of this handle is there from now on, be it another process's or not.
    pub fn mapped(&self, range: Range<u64>, handle: u64) {
        if self.is_kept && self.known.lock().handles.contains(&handle) {
            self.add(range, true);
        }
    }

    fn add(&self, range: Range<u64>, is_mapped: bool) {
        if self.is_kept && !range.is_empty() {
            self.known.lock().memory.insert(range.start, (range.end, is_mapped));
            self.is_any.store(true, Relaxed);
        }
    }

    /// What holds this address is given up: where it was.
    pub fn closed(&self, address: u64) -> Option<Range<u64>> {
        let mut known = self.known.lock();
        let range = known.around(address)?;
        known.memory.remove(&range.start);
        self.is_any.store(!known.memory.is_empty(), Relaxed);
        Some(range)
    }

    pub fn unmapped(&self, range: &Range<u64>) {
        let mut known = self.known.lock();
        known.memory.retain(|start, _| !range.contains(start));
        self.is_any.store(!known.memory.is_empty(), Relaxed);
    }

    /// What these words name, and what is mapped side by side with it.
    pub fn named(&self, words: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
        let known = self.known.lock();
        let mut found = BTreeMap::new();
        for word in words {
            let Some(range) = known.around(word).filter(|range| !found.contains_key(&range.start)) else { continue };
            let is_mapped = known.memory.get(&range.start).is_some_and(|(_, is_mapped)| *is_mapped);
            found.insert(range.start, range.end);
            if is_mapped {
                found.extend(known.beside(&range));
            }
        }
        found.into_iter().map(|(start, end)| start..end).collect()
    }

    pub fn holds(&self, address: u64) -> bool {
        self.known.lock().around(address).is_some()
    }

    pub fn all(&self) -> Vec<Range<u64>> {
        self.known.lock().memory.iter().map(|(start, (end, _))| *start..*end).collect()
    }
}

impl Known {
    fn around(&self, address: u64) -> Option<Range<u64>> {
        let (start, (end, _)) = self.memory.range(..=address).next_back()?;
        (address < *end).then_some(*start..*end)
    }

    /// What is mapped before and behind, without a gap.
    fn beside(&self, range: &Range<u64>) -> Vec<(u64, u64)> {
        let (mut start, mut end, mut found) = (range.start, range.end, Vec::new());
        for (from, (to, _)) in self.memory.range(..range.start).rev().take_while(|(_, (_, is_mapped))| *is_mapped) {
            if *to != start {
                break;
            }
            start = *from;
            found.push((*from, *to));
        }
        for (from, (to, _)) in self.memory.range(range.end..).take_while(|(_, (_, is_mapped))| *is_mapped) {
            if *from != end {
                break;
            }
            end = *to;
            found.push((*from, *to));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_comes_with_what_is_mapped_beside_it() {
        let imported = Imported::new(true);
        imported.opened(0x1000..0x2000);
        imported.opened(0x2000..0x2800);
        for (start, handle) in [(0x4000, 7), (0x5000, 7), (0x6000, 8), (0x7000, 9), (0x9000, 8)] {
            imported.imported(7);
            imported.imported(8);
            imported.mapped(start..start + 0x1000, handle);
        }
        let starts = |all: Vec<Range<u64>>| all.into_iter().map(|range| range.start).collect::<Vec<_>>();
        let named = |words: &[u64]| starts(imported.named(words.iter().copied()));
        assert_eq!(named(&[0x0, 0x3000, 0x7800]), []);
        assert_eq!(named(&[0x1fff, 0x1000]), [0x1000]);
        // Of handles that were none of another process there is nothing.
        assert_eq!(named(&[0x5800]), [0x4000, 0x5000, 0x6000]);
        assert_eq!(imported.closed(0x2400), Some(0x2000..0x2800));
        imported.unmapped(&(0x4000..0x6000));
        assert_eq!(starts(imported.all()), [0x1000, 0x6000, 0x9000]);
        imported.unmapped(&(0x6000..0xa000));
        assert_eq!((imported.closed(0x1000), imported.any()), (Some(0x1000..0x2000), false));
    }

    #[test]
    fn nothing_is_followed_where_it_is_not_to_be_kept() {
        let imported = Imported::default();
        imported.opened(0x1000..0x2000);
        assert!(!imported.any() && imported.all().is_empty());
    }
}
