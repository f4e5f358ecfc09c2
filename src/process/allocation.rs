//! Failed allocations: a trace may require more memory than there is, and the command then fails as with any
//! other error, where the standard library would abort.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

pub(crate) struct Allocator;

thread_local! {
    /// Whether the thread's last call here was refused: the standard library aborts without another one.
    static REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// Whether an abort of this thread comes of refused memory.
pub(crate) fn is_refused() -> bool {
    REFUSED.get()
}

fn noted(memory: *mut u8) -> *mut u8 {
    REFUSED.set(memory.is_null());
    memory
}

// SAFETY: all is the system's allocator's.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises.
        noted(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises.
        noted(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promises.
        noted(unsafe { System.realloc(memory, layout, bytes) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises.
        unsafe { System.dealloc(memory, layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_was_handled_is_forgotten() {
        assert!(Vec::<u8>::new().try_reserve_exact(isize::MAX as usize).is_err());
        assert!(is_refused());
        drop(std::hint::black_box(vec![1u8]));
        assert!(!is_refused());
    }
}
