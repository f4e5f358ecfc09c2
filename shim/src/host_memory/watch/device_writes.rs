//! Writes of the device to watched memory: the new contents are known, so a later CPU write is new, or
//! unknown.

use super::watched::Watched;
use super::{State, Watch};
use crate::in_flight::long_results;
use crate::in_flight::long_results::MOST_READ;
use crate::in_flight::users::Users;
use crate::os::intervals::{self, joined, without};
use crate::os::probe::bytes_at;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

impl Watch {
    /// What the device has brought, which is known as of now: what the CPU writes over it is new, also if it
    /// was there before. `by_launch`: not on pages where the CPU wrote, as nobody knows where a launch did.
    ///
    /// With the lock held: what another thread has found done since must not be replaced by what was read
    /// before.
    pub(crate) fn landed(&self, address: u64, len: u64, careful: bool, by_launch: bool) -> Option<Cow<'static, [u8]>> {
        if !self.any() {
            return bytes_at(address, len as usize, careful);
        }
        let end = address.saturating_add(len);
        let mut state = self.state.lock();
        let State { tracker, ranges, .. } = &mut *state;
        // The pieces that copies were seen to read may lie within it, and some of them within others.
        let mut around = ranges.range_mut(..end).filter(|(_, watched)| watched.end > address).peekable();
        if around.peek().is_none() {
            drop(state);
            return bytes_at(address, len as usize, careful);
        }
        // Both the trace and the shadow get what is read once.
        let bytes = bytes_at(address, len as usize, careful)?.into_owned();
        for (start, watched) in around {
            let within = address.max(*start)..end.min(watched.end);
            let read = &bytes[(within.start - address) as usize..(within.end - address) as usize];
            let unknown = match tracker {
                Some(tracker) if by_launch => watched.take_over_bytes(*start, within.clone(), read, &[], tracker),
                _ => {
                    watched.shadow.write((within.start - start) as usize, read);
                    Vec::new()
                }
            };
            without(within, &unknown).iter().for_each(|known| watched.settle(known));
        }
        Some(Cow::Owned(bytes))
    }

    /// What kernels of a graph that these threads have made and launched have made of memory that no other
    /// has for itself is known as of now, but for the pages where the CPU wrote, too: what a callback puts in
    /// its place is new, also if it was there before. `copied`: pages, in order, to which its copies have
    /// gone. The parts of the memory of which that is not so.
    pub(crate) fn computed(&self, threads: [u32; 2], copied: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut state = self.state.lock();
        let State { tracker: Some(tracker), ranges, copy, .. } = &mut *state else { return Vec::new() };
        let (mut budget, mut unknown) = (MOST_READ, Vec::new());
        let is_theirs = |only| threads.contains(&only);
        let may_use = |watched: &Watched| watched.pinned && watched.users.only().is_none_or(is_theirs);
        let mut used: Vec<_> = ranges.iter_mut().filter(|(_, watched)| may_use(watched)).collect();
        // Their own first.
        used.sort_by_key(|(_, watched)| watched.users.only().is_none());
        for (start, watched) in used {
            let all = *start..watched.end;
            let len = all.end - all.start;
            if len <= budget {
                budget -= len;
                unknown.extend(watched.take_over(*start, all, copied, tracker, copy));
            } else {
                unknown.push(all);
            }
        }
        unknown
    }

    /// The same, of what a launch has made of this memory. On pages to which the CPU has copied the program
    /// may have written, too: those are told as a whole, and so is long memory.
    pub(crate) fn computed_in(&self, range: Range<u64>, copied: &[Range<u64>]) {
        if range.end - range.start > long_results::SHORT {
            return self.expect_results(range);
        }
        let mut state = self.state.lock();
        let State { tracker: Some(tracker), ranges, copy, .. } = &mut *state else { return };
        for (start, watched) in ranges.range_mut(..range.end).filter(|(_, watched)| watched.end > range.start) {
            let within = range.start.max(*start)..range.end.min(watched.end);
            watched.take_over(*start, within.clone(), copied, tracker, copy);
            watched.back.extend(intervals::intersections(&within, copied));
            watched.back = joined(std::mem::take(&mut watched.back));
        }
    }

    /// Work is done that may have changed this managed memory, or memory too long to be read. What the CPU
    /// finds there now, or has put there since, is told as a whole: it may happen to be what was known.
    pub(crate) fn expect_results(&self, range: Range<u64>) {
        if !self.any() {
            return;
        }
        let mut state = self.state.lock();
        for (start, watched) in state.ranges.range_mut(..range.end).filter(|(_, watched)| watched.end > range.start) {
            watched.back.push(range.start.max(*start)..range.end.min(watched.end));
            watched.back = joined(std::mem::take(&mut watched.back));
        }
    }

    /// The same, of all memory that launches may be using without having been given it: managed memory, and
    /// pinned memory whose address stands somewhere, of which it is looked what is there now. `launches`: the
    /// thread of each, and whether it is of a graph, which may use large pieces, too, and pinned memory that
    /// not its thread alone has named.
    pub(crate) fn expect_unnamed_results(&self, launches: &BTreeSet<(u32, bool)>) {
        let mut state = self.state.lock();
        let State { tracker: Some(tracker), ranges, copy, .. } = &mut *state else { return };
        let mut budget = MOST_READ;
        for (start, watched) in ranges.iter_mut() {
            let len = watched.end - start;
            let mut graphs = launches.iter().filter(|(_, any)| *any);
            let is_any = match watched.managed {
                true => graphs.next().is_some() || watched.is_small(*start),
                false => watched.is_stored || graphs.any(|(thread, _)| watched.users != Users::One(*thread)),
            };
            if is_any && watched.is_stored && watched.tracked && len <= budget {
                budget -= len;
                watched.take_over(*start, *start..watched.end, &[], tracker, copy);
            } else if is_any {
                watched.back.clear();
                watched.back.push(*start..watched.end);
            }
        }
    }
}
