//! Pinned host memory at its recorded addresses: pages of our own, registered with the driver.

use crate::base::addresses::PAGE;
use crate::base::ranges::{Ranges, widen};
use crate::driver::guard;
use crate::driver::{Failure, result};
use crate::job::peers::HostPart;
use crate::memory::place::Placement;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;

impl Placement<'_> {
    /// Where the replay has the pinned host memory of a recorded range, if it is such memory.
    pub(crate) fn host(&self, recorded: &Range<u64>) -> Option<u64> {
        let inside = |(at, _): &&(Range<u64>, u64)| at.start <= recorded.start && recorded.end <= at.end;
        if let Some((at, live)) = self.elsewhere.lock().values().find(inside) {
            return Some(live + (recorded.start - at.start));
        }
        self.pages.covers(recorded).then_some(recorded.start)
    }

    /// Whether all of this is pinned memory that is elsewhere now.
    pub(crate) fn is_pinned_elsewhere(&self, live: &Range<u64>) -> bool {
        let holds = |(at, to): &(Range<u64>, u64)| *to <= live.start && live.end <= to + (at.end - at.start);
        self.elsewhere.lock().values().any(holds)
    }

    /// Where the replay has the pinned memory that a recorded address lies in.
    pub(crate) fn host_around(&self, recorded: u64) -> Option<Range<u64>> {
        let pinned = self.pinned.lock();
        let (start, end) = pinned.range(..=recorded).next_back().filter(|(_, end)| recorded < **end)?;
        let live = self.host(&(*start..*end))?;
        Some(live..live + (end - start))
    }

    /// Pins the host memory at its recorded address. Needs a current context.
    pub(crate) fn pin(&self, range: Range<u64>) -> Result<(), Failure> {
        self.pin_with(range, &[])
    }

    /// `shared`: what of it other processes have as well, and the file that all map there.
    pub(crate) fn pin_with(&self, range: Range<u64>, shared: &[(HostPart, OwnedFd)]) -> Result<(), Failure> {
        let len = range.end - range.start;
        self.pinned.lock().insert(range.start, range.end);
        if self.pages.covers(&range) {
            // Device memory may have been here before: the driver refuses what is still mapped.
            if self.vacate(&range)? {
                map_host(&self.held, widen(range.clone(), PAGE));
            }
            self.shared_host.make_own(&range);
            if !shared.is_empty() && !self.shared_host.share(&range, shared) {
                return Err(NOT_SHARED);
            }
            match self.driver.register_host(range.start, len) {
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
        // Pages of ours here, too: whatever becomes of their context, what the recorded CPU wrote has a
        // place.
        let live = match shared {
            [] => map_anywhere(len).ok_or(NO_ROOM)?,
            _ => self.shared_host.share_elsewhere(&range, shared).ok_or(NOT_SHARED)?,
        };
        if let Err(failure) = self.driver.register_host(live, len) {
            self.shared_host.end(&(live..live + len));
            unmap(live, len);
            return Err(failure);
        }
        self.translation.bind(range.start, len, live);
        self.elsewhere.lock().insert(range.start, (range, live));
        self.counts.host_translated.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Where pinned memory is that could not be put back at its recorded start.
    pub(crate) fn pinned_elsewhere(&self, start: u64) -> Option<Range<u64>> {
        let (range, live) = self.elsewhere.lock().get(&start).cloned()?;
        Some(live..live + (range.end - range.start))
    }

    /// Pinned memory that is at its recorded start.
    pub(crate) fn pinned_at(&self, start: u64) -> Option<Range<u64>> {
        self.pinned.lock().get(&start).map(|end| start..*end)
    }

    /// Gives it back. What copies do with it has been waited for, unless a capture is under way: then it
    /// stays.
    pub(crate) fn unpin(&self, start: u64) -> Result<(), Failure> {
        // The driver has nothing against it.
        if start == 0 {
            return Ok(());
        }
        self.pinned.lock().remove(&start);
        let elsewhere = self.elsewhere.lock().remove(&start);
        if let Some((range, live)) = elsewhere {
            self.translation.unbind(start);
            if self.captures.any() {
                return Ok(());
            }
            self.driver.unregister_host(live)?;
            let len = range.end - range.start;
            self.shared_host.end(&(live..live + len));
            unmap(live, len);
            return Ok(());
        }
        self.driver.unregister_host(start)
    }
}

const NOT_SHARED: Failure = Failure { name: "mmap of what other processes share", code: Some(result::INVALID_VALUE) };
const NO_ROOM: Failure = Failure { name: "mmap", code: Some(result::OUT_OF_MEMORY) };

/// Maps pages of our own somewhere.
fn map_anywhere(len: u64) -> Option<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: over nothing.
    let got = unsafe {
        libc::mmap(std::ptr::null_mut(), len.try_into().ok()?, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    (got != libc::MAP_FAILED).then(|| {
        guard::tell(got.cast(), len as usize);
        got as u64
    })
}

/// Pages of ours that nothing uses any more.
fn unmap(start: u64, len: u64) {
    let pages = widen(start..start + len, PAGE);
    guard::tell(pages.start as *const u8, 0);
    // SAFETY: the caller mapped them, and has taken them off the list of what the replay writes.
    unsafe { libc::munmap(pages.start as *mut _, (pages.end - pages.start) as usize) };
}

/// Maps pages of our own at a recorded host range.
pub(crate) fn map_host(held: &Ranges, run: Range<u64>) -> bool {
    let map = |range: Range<u64>, fixed| {
        let len = (range.end - range.start) as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: over nothing (NOREPLACE), or over addresses that the driver holds for this placement.
        let got = unsafe { libc::mmap(range.start as *mut _, len, access, flags, -1, 0) };
        let is_there = got as u64 == range.start;
        if is_there {
            guard::tell(got.cast(), len);
        }
        is_there
    };
    let outside = held.gaps(run.clone());
    let inside = Ranges::union(outside.iter().cloned(), 1).gaps(run);
    outside.into_iter().all(|range| map(range, libc::MAP_FIXED_NOREPLACE))
        && inside.into_iter().all(|range| map(range, libc::MAP_FIXED))
}
