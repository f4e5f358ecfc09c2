//! Long buffers, which are reused: Linux clears each page of a new mapping when it is first touched, and that
//! takes longer than a copy into it.

use parking_lot::Mutex;
use std::collections::VecDeque;

/// Shorter ones are the allocator's.
pub(super) const LONG: usize = 1 << 20;
/// Bytes of buffers that nobody uses which stay; one alone may be longer.
const MOST_IDLE: usize = 1 << 30;
/// Large pages of Linux.
const STEP: usize = 2 << 20;

static IDLE: Mutex<VecDeque<Pages>> = Mutex::new(VecDeque::new());

/// A mapping of our own.
struct Pages {
    start: *mut u8,
    len: usize,
}

// SAFETY: owned memory.
unsafe impl Send for Pages {}

impl Pages {
    fn new(len: usize) -> Option<Pages> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, over nothing.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: a hint for the mapping just made.
        unsafe { libc::madvise(start, len, libc::MADV_HUGEPAGE) };
        Some(Pages { start: start.cast(), len })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by us, and nobody uses it any more.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// A buffer that is reused after it is dropped.
pub(super) struct LongBuffer(Option<Pages>);

impl LongBuffer {
    /// One of so many bytes or more, which may hold anything. None: there is no memory for it.
    pub(super) fn allocate(len: usize) -> Option<LongBuffer> {
        let len = len.checked_next_multiple_of(STEP)?;
        let mut idle = IDLE.lock();
        let fitting = idle.iter().enumerate().filter(|(_, pages)| (len..=len.saturating_mul(2)).contains(&pages.len));
        let closest = fitting.min_by_key(|(_, pages)| pages.len).map(|(at, _)| at);
        if let Some(pages) = closest.and_then(|at| idle.remove(at)) {
            return Some(LongBuffer(Some(pages)));
        }
        drop(idle);
        Pages::new(len).map(|pages| LongBuffer(Some(pages)))
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.0.as_ref().map_or(std::ptr::null_mut(), |pages| pages.start)
    }
}

impl Drop for LongBuffer {
    fn drop(&mut self) {
        let mut idle = IDLE.lock();
        idle.extend(self.0.take());
        let mut gone = Vec::new();
        while idle.len() > 1 && idle.iter().map(|pages| pages.len).sum::<usize>() > MOST_IDLE {
            gone.extend(idle.pop_front());
        }
        drop(idle);
        // To give pages back takes long: not under the lock.
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_and_few_stay() {
        // Of a length that no other test takes.
        const LEN: usize = 130 * STEP;
        let buffer = LongBuffer::allocate(LEN - 1).expect("memory");
        let start = buffer.start();
        drop(buffer);
        let (again, other) =
            (LongBuffer::allocate(LEN - STEP).expect("memory"), LongBuffer::allocate(LEN).expect("memory"));
        assert_eq!(again.start(), start);
        assert_ne!(other.start(), start);
        // No short one takes a long one's pages.
        drop((again, other));
        let short = LongBuffer::allocate(STEP).expect("memory");
        assert!(short.0.as_ref().is_some_and(|pages| pages.len <= 2 * STEP));
        let many: Vec<LongBuffer> = (0..8).map(|_| LongBuffer::allocate(LEN).expect("memory")).collect();
        drop(many);
        assert!(IDLE.lock().iter().map(|pages| pages.len).sum::<usize>() <= MOST_IDLE);
        assert!(LongBuffer::allocate(usize::MAX).is_none());
    }
}
