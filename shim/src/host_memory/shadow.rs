//! The shadow of host memory: its contents at the last scan.

use std::ops::Range;
use trace::base::free_memory;

/// Bytes between two stretches that are taken along: fewer than what a stretch of its own would take in the
/// trace.
pub(crate) const NEAR: usize = 8;
/// For what is shorter nobody looks how much memory there is.
const LONG: u64 = 64 << 20;

/// A private copy of a range, whose pages use memory only once they are written.
pub(crate) struct Shadow {
    at: *mut u8,
    len: usize,
}

// SAFETY: the mapping is the shadow's own.
unsafe impl Send for Shadow {}

impl Shadow {
    /// All zeros; none if there is no room.
    pub(crate) fn with_len(len: u64) -> Option<Shadow> {
        if len >= LONG && free_memory::memory().is_some_and(|room| len > room / 2) {
            return None;
        }
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new mapping at a place Linux chooses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len as usize, access, kind, -1, 0) };
        if at == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the new mapping. A child begins anew, and copying the page tables would cost it time.
        unsafe { libc::madvise(at, len as usize, libc::MADV_DONTFORK) };
        Some(Shadow { at: at.cast(), len: len as usize })
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has this length, and the shadow is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }

    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// The stretches of `now`, which begins at `offset`, that are not new.
    pub(crate) fn same(&mut self, offset: usize, now: &[u8]) -> Vec<Range<usize>> {
        let new = self.differing(offset, now);
        let starts = std::iter::once(0).chain(new.iter().map(|new| new.end));
        let ends = new.iter().map(|new| new.start).chain([now.len()]);
        starts.zip(ends).map(|(start, end)| start..end).filter(|same| !same.is_empty()).collect()
    }

    /// The stretches of `now`, which begins at `offset`, that are new, within it.
    pub(crate) fn differing(&mut self, offset: usize, now: &[u8]) -> Vec<Range<usize>> {
        differences(&self.bytes()[offset..offset + now.len()], now)
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        // SAFETY: the shadow's own mapping, which nothing borrows any more.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}

/// Where two pieces of memory differ. Bytes in between are left out, as they may be somebody else's, but for
/// short stretches.
fn differences(before: &[u8], now: &[u8]) -> Vec<Range<usize>> {
    const STEP: usize = 64;
    let mut found: Vec<Range<usize>> = Vec::new();
    for start in (0..now.len()).step_by(STEP) {
        let end = (start + STEP).min(now.len());
        if before[start..end] == now[start..end] {
            continue;
        }
        for at in (start..end).filter(|at| before[*at] != now[*at]) {
            match found.last_mut() {
                Some(last) if at <= last.end + NEAR => last.end = at + 1,
                _ => found.push(at..at + 1),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_room_for_is_not_followed() {
        assert!(Shadow::with_len(1 << 60).is_none());
    }

    #[test]
    fn what_changed_is_found_and_nothing_far_from_it() {
        let mut now = vec![7u8; 300];
        let mut shadow = Shadow::with_len(300).unwrap();
        assert!(shadow.differing(0, &now).iter().eq(std::slice::from_ref(&(0..300))));
        shadow.write(0, &now);
        assert_eq!(shadow.differing(0, &now), []);
        (now[10], now[15], now[64], now[299]) = (1, 1, 1, 1);
        assert_eq!(shadow.differing(0, &now), [10..16, 64..65, 299..300]);
        shadow.write(0, &now);
        assert_eq!(shadow.differing(100, &now[100..]), []);
        shadow.write(100, &[9]);
        assert_eq!(shadow.same(90, &now[90..200]), [0..10, 11..110]);
        assert!(shadow.differing(100, &now[100..]).iter().eq(std::slice::from_ref(&(0..1))));
    }
}
