//! What host memory held when it was last looked at.

use std::ops::Range;

/// A private copy of a range, whose pages take memory only once they are written.
pub struct Shadow {
    at: *mut u8,
    len: usize,
}

// SAFETY: the mapping is the shadow's own.
unsafe impl Send for Shadow {}

impl Shadow {
    /// All zeros; none if there is no room.
    pub fn of(len: u64) -> Option<Shadow> {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new mapping at a place the kernel chooses.
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

    pub fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// Takes over `now`, which begins at `offset`; the stretches of it that are new, within it.
    pub fn update(&mut self, offset: usize, now: &[u8]) -> Vec<Range<usize>> {
        let before = &mut self.bytes()[offset..offset + now.len()];
        let changed = differences(before, now);
        for stretch in &changed {
            before[stretch.clone()].copy_from_slice(&now[stretch.clone()]);
        }
        changed
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        // SAFETY: the shadow's own mapping, which nothing borrows any more.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}

/// Where two pieces of memory differ. Bytes in between are left out, as they may be somebody else's, but for short stretches.
fn differences(before: &[u8], now: &[u8]) -> Vec<Range<usize>> {
    const STEP: usize = 64;
    /// Shorter than what a stretch of its own would take in the trace.
    const NEAR: usize = 8;
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
    fn what_changed_is_found_and_nothing_far_from_it() {
        let mut now = vec![7u8; 300];
        let mut shadow = Shadow::of(300).unwrap();
        assert!(shadow.update(0, &now).iter().eq(std::slice::from_ref(&(0..300))));
        assert_eq!(shadow.update(0, &now), []);
        (now[10], now[15], now[64], now[299]) = (1, 1, 1, 1);
        assert_eq!(shadow.update(0, &now), [10..16, 64..65, 299..300]);
        assert_eq!(shadow.update(100, &now[100..]), []);
        shadow.put(100, &[9]);
        assert!(shadow.update(100, &now[100..]).iter().eq(std::slice::from_ref(&(0..1))));
    }
}
