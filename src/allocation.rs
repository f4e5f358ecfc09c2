//! Memory that Linux refuses: a trace may ask for more than there is, and the command then fails as with any
//! other error, where the standard library would abort.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub struct Allocator;

/// Bytes that were refused last; 0 if none were.
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// Whether an abort comes of refused memory.
pub fn is_refused() -> bool {
    REFUSED.load(Relaxed) != 0
}

fn noted(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() {
        REFUSED.store(bytes, Relaxed);
    }
    memory
}

// SAFETY: all is the system's allocator's.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises.
        noted(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises.
        noted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promises.
        noted(unsafe { System.realloc(memory, layout, bytes) }, bytes)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises.
        unsafe { System.dealloc(memory, layout) };
    }
}
