//! Pinned host memory at its recorded addresses: pages of our own, registered with the driver.

use crate::call::driver::{Failure, result};
use crate::memory::place::Placement;
use crate::memory::ranges::{Ranges, widen};
use crate::plan::PAGE;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP: what pinned memory is anyway under unified addressing.
const PORTABLE_MAPPED: u64 = 3;

impl Placement<'_> {
    /// Where the replay has the pinned host memory of a recorded range, if it is such memory.
    pub fn host(&self, recorded: &Range<u64>) -> Option<u64> {
        let inside = |at: &Range<u64>| at.start <= recorded.start && recorded.end <= at.end;
        if self.elsewhere.lock().values().any(inside) {
            return self.translation.live(recorded.start);
        }
        self.pages.covers(recorded).then_some(recorded.start)
    }

    /// Where the replay has the pinned memory that a recorded address lies in.
    pub fn host_around(&self, recorded: u64) -> Option<Range<u64>> {
        let pinned = self.pinned.lock();
        let (start, end) = pinned.range(..=recorded).next_back().filter(|(_, end)| recorded < **end)?;
        let live = self.host(&(*start..*end))?;
        Some(live..live + (end - start))
    }

    /// Pins the host memory at its recorded address. Needs a current context.
    pub fn pin(&self, range: Range<u64>) -> Result<(), Failure> {
        let len = range.end - range.start;
        self.pinned.lock().insert(range.start, range.end);
        if self.pages.covers(&range) {
            // Device memory may have been here before: the driver refuses what is still mapped.
            if self.vacate(&range)? {
                map_host(&self.held, widen(range.clone(), PAGE));
            }
            // SAFETY: the pages are this placement's own and stay until the end.
            match unsafe { self.driver.ask("cuMemHostRegister_v2", &[range.start, len, PORTABLE_MAPPED]) } {
                Ok(()) | Err(Failure { code: Some(result::ALREADY_REGISTERED), .. }) => {
                    self.translation.forget(&range);
                    self.counts.host_placed.fetch_add(1, Relaxed);
                    return Ok(());
                }
                // Not there, then.
                Err(failure @ Failure { code: Some(result::INVALID_VALUE), .. }) => {
                    self.counts.is_elsewhere(format!("{failure} at {:#x}", range.start));
                }
                other => return other,
            }
        }
        let mut live = 0u64;
        // SAFETY: one output word.
        unsafe { self.driver.ask("cuMemHostAlloc", &[&raw mut live as u64, len, PORTABLE_MAPPED]) }?;
        self.translation.bind(range.start, len, live);
        self.elsewhere.lock().insert(range.start, range);
        self.counts.host_translated.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Where pinned memory is that could not be put back at its recorded start.
    pub fn pinned_elsewhere(&self, start: u64) -> Option<Range<u64>> {
        let len = self.elsewhere.lock().get(&start).map(|range| range.end - range.start)?;
        self.translation.live(start).map(|live| live..live + len)
    }

    /// Pinned memory that is at its recorded start.
    pub fn pinned_at(&self, start: u64) -> Option<Range<u64>> {
        self.pinned.lock().get(&start).map(|end| start..*end)
    }

    /// Gives it back. What copies do with it has been waited for, unless a capture is under way: then it stays.
    pub fn unpin(&self, start: u64) -> Result<(), Failure> {
        // The driver has nothing against it.
        if start == 0 {
            return Ok(());
        }
        self.pinned.lock().remove(&start);
        if self.elsewhere.lock().remove(&start).is_some()
            && let Some(live) = self.translation.unbind(start)
        {
            if self.captures.any() {
                return Ok(());
            }
            // SAFETY: memory of cuMemHostAlloc, by this placement.
            return unsafe { self.driver.ask("cuMemFreeHost", &[live]) };
        }
        // SAFETY: no pointer is followed; the pages stay mapped.
        unsafe { self.driver.ask("cuMemHostUnregister", &[start]) }
    }
}

/// Maps pages of our own at a recorded host range.
pub fn map_host(held: &Ranges, run: Range<u64>) -> bool {
    let map = |range: Range<u64>, fixed| {
        let len = (range.end - range.start) as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: over nothing (NOREPLACE), or over addresses that the driver holds for this placement.
        let got = unsafe { libc::mmap(range.start as *mut _, len, access, flags, -1, 0) };
        got as u64 == range.start
    };
    let outside = held.gaps(run.clone());
    let inside = Ranges::union(outside.iter().cloned(), 1).gaps(run);
    outside.into_iter().all(|range| map(range, libc::MAP_FIXED_NOREPLACE))
        && inside.into_iter().all(|range| map(range, libc::MAP_FIXED))
}
