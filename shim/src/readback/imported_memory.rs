//! Memory imported from other processes, with its addresses in this one, if its contents are to be kept.

use crate::os::lock::Lock;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::*};

#[derive(Default)]
pub(crate) struct Imported {
    /// If it is to be kept.
    is_kept: bool,
    is_any: AtomicBool,
    known: Lock<Imports>,
}

#[derive(Default)]
struct Imports {
    /// By start.
    memory: BTreeMap<u64, Part>,
    /// Physical memory, by its handles.
    handles: BTreeSet<u64>,
    /// Mappings that the driver was asked to end and has not answered for, by the request.
    ending: BTreeMap<u64, Vec<Range<u64>>>,
    requests: u64,
}

#[derive(Clone, Copy)]
struct Part {
    end: u64,
    /// What lies beside it may be the same memory.
    is_mapped: bool,
    /// Who opens it once more gets the same address, and it ends when it has been closed as often.
    opened: u32,
}

impl Imported {
    pub(crate) fn new(is_kept: bool) -> Imported {
        Imported { is_kept, ..Imported::default() }
    }

    pub(crate) fn is_snapshotted(&self) -> bool {
        self.is_kept
    }

    /// Whether there may be any.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.is_any.load(Relaxed)
    }

    /// Opened by a handle of its address.
    pub(crate) fn opened(&self, range: Range<u64>) {
        self.add(range, false);
    }

    pub(crate) fn imported(&self, handle: u64) {
        if self.is_kept {
            self.known.lock().handles.insert(handle);
        }
    }

    pub(crate) fn released(&self, handle: u64) {
        if self.is_kept {
            self.known.lock().handles.remove(&handle);
        }
    }

    /// Memory of this handle is there from now on, be it another process's or not.
    pub(crate) fn mapped(&self, range: Range<u64>, handle: u64) {
        if self.is_kept && self.known.lock().handles.contains(&handle) {
            self.add(range, true);
        }
    }

    fn add(&self, range: Range<u64>, is_mapped: bool) {
        if self.is_kept && !range.is_empty() {
            let mut known = self.known.lock();
            let before = known.memory.get(&range.start).filter(|part| !is_mapped && part.end == range.end);
            let opened = before.map_or(0, |part| part.opened) + 1;
            known.memory.insert(range.start, Part { end: range.end, is_mapped, opened });
            self.is_any.store(true, Relaxed);
        }
    }

    /// What holds this address is given up, if it was not opened more often: where it is.
    pub(crate) fn closed(&self, address: u64) -> Option<Range<u64>> {
        let mut known = self.known.lock();
        let range = known.range_of(address)?;
        let part = known.memory.get_mut(&range.start)?;
        part.opened -= 1;
        if part.opened == 0 {
            known.memory.remove(&range.start);
        }
        self.is_any.store(!known.memory.is_empty(), Relaxed);
        Some(range)
    }

    /// The driver is about to be asked to unmap this: the request, 0 if there is nothing of others in it. Until
    /// it is answered the memory is not named: a copy of it, for what another thread launches meanwhile, could
    /// find it unmapped, and the program's context would fail by that.
    pub(crate) fn unmaps(&self, range: &Range<u64>) -> u64 {
        let mut known = self.known.lock();
        // What was opened by a handle of its address is closed by that: the driver refuses to unmap it.
        let parts = known.memory.range(range.clone()).filter(|(_, part)| part.is_mapped);
        let parts: Vec<Range<u64>> = parts.map(|(start, part)| *start..part.end).collect();
        parts.iter().for_each(|part| _ = known.memory.remove(&part.start));
        self.is_any.store(!known.memory.is_empty(), Relaxed);
        if parts.is_empty() {
            return 0;
        }
        known.requests += 1;
        let request = known.requests;
        known.ending.insert(request, parts);
        request
    }

    /// What a request was answered with: if it was refused, all is mapped as before.
    pub(crate) fn unmapped(&self, request: u64, is_refused: bool) {
        let parts = self.known.lock().ending.remove(&request);
        parts.into_iter().flatten().filter(|_| is_refused).for_each(|part| self.add(part, true));
    }

    /// A context has ended: what is gone by this is forgotten.
    pub(crate) fn forget_closed(&self, is_gone: impl Fn(u64) -> bool) {
        // The driver is asked without the lock.
        let gone: Vec<u64> = self.all().into_iter().map(|range| range.start).filter(|start| is_gone(*start)).collect();
        let mut known = self.known.lock();
        known.memory.retain(|start, _| !gone.contains(start));
        self.is_any.store(!known.memory.is_empty(), Relaxed);
    }

    /// What these words name, if asked for with what is mapped side by side with it.
    pub(crate) fn ranges_of(&self, words: impl Iterator<Item = u64>, with_beside: bool) -> Vec<Range<u64>> {
        let known = self.known.lock();
        let mut found = BTreeMap::new();
        for word in words {
            let Some(range) = known.range_of(word).filter(|range| !found.contains_key(&range.start)) else { continue };
            let is_mapped = known.memory.get(&range.start).is_some_and(|part| part.is_mapped);
            found.insert(range.start, range.end);
            if is_mapped && with_beside {
                found.extend(known.mapped_neighbours(&range));
            }
        }
        found.into_iter().map(|(start, end)| start..end).collect()
    }

    pub(crate) fn holds(&self, address: u64) -> bool {
        self.known.lock().range_of(address).is_some()
    }

    pub(crate) fn all(&self) -> Vec<Range<u64>> {
        self.known.lock().memory.iter().map(|(start, part)| *start..part.end).collect()
    }
}

impl Imports {
    fn range_of(&self, address: u64) -> Option<Range<u64>> {
        let (start, part) = self.memory.range(..=address).next_back()?;
        (address < part.end).then_some(*start..part.end)
    }

    /// What is mapped before and behind, without a gap.
    fn mapped_neighbours(&self, range: &Range<u64>) -> Vec<(u64, u64)> {
        let (mut start, mut end, mut found) = (range.start, range.end, Vec::new());
        for (from, part) in self.memory.range(..range.start).rev().take_while(|(_, part)| part.is_mapped) {
            if part.end != start {
                break;
            }
            start = *from;
            found.push((*from, part.end));
        }
        for (from, part) in self.memory.range(range.end..).take_while(|(_, part)| part.is_mapped) {
            if *from != end {
                break;
            }
            end = part.end;
            found.push((*from, part.end));
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
        let named = |words: &[u64]| starts(imported.ranges_of(words.iter().copied(), true));
        assert_eq!(named(&[0x0, 0x3000, 0x7800]), []);
        assert_eq!(named(&[0x1fff, 0x1000]), [0x1000]);
        // Of handles that were none of another process there is nothing.
        assert_eq!(named(&[0x5800]), [0x4000, 0x5000, 0x6000]);
        assert_eq!(starts(imported.ranges_of([0x5800].into_iter(), false)), [0x5000]);
        imported.opened(0x2000..0x2800);
        assert_eq!((imported.closed(0x2400), named(&[0x2400]).len()), (Some(0x2000..0x2800), 1), "opened twice");
        assert_eq!((imported.closed(0x2400), named(&[0x2400]).len()), (Some(0x2000..0x2800), 0));
        let all = imported.all();
        let refused = imported.unmaps(&(0x4000..0xa000));
        assert_eq!(starts(imported.all()), [0x1000]);
        imported.unmapped(refused, true);
        assert_eq!(imported.all(), all, "each part by itself, and behind a gap, too");
        let refused = imported.unmaps(&(0x1000..0x2000));
        imported.unmapped(refused, true);
        assert_eq!((refused, imported.all()), (0, all), "opened by a handle of its address");
        imported.unmapped(imported.unmaps(&(0x4000..0x6000)), false);
        assert_eq!(starts(imported.all()), [0x1000, 0x6000, 0x9000]);
        imported.unmapped(imported.unmaps(&(0x6000..0xa000)), false);
        assert_eq!(imported.unmaps(&(0x6000..0xa000)), 0);
        assert_eq!((imported.closed(0x1000), imported.any()), (Some(0x1000..0x2000), false));
    }

    #[test]
    fn what_a_context_took_with_it_is_forgotten() {
        let imported = Imported::new(true);
        imported.opened(0x1000..0x2000);
        imported.opened(0x3000..0x4000);
        imported.forget_closed(|start| start == 0x1000);
        assert_eq!((imported.all().len(), imported.holds(0x1000), imported.holds(0x3000)), (1, false, true));
    }

    #[test]
    fn nothing_is_followed_where_it_is_not_to_be_kept() {
        let imported = Imported::default();
        imported.opened(0x1000..0x2000);
        assert!(!imported.any() && imported.all().is_empty());
    }
}
