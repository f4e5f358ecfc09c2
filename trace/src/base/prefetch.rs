//! Prefetching of memory that will be read soon.
//!
//! Calls in order of time lie in as many places of a file as it has threads, more than the processor's own
//! prefetcher follows.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

#[inline]
pub(crate) fn prefetch<T>(all: &[T], at: usize) {
    if let Some(wanted) = all.get(at) {
        // SAFETY: the address is that of a reference; what is there is not changed, and nothing is told of it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>((wanted as *const T).cast()) }
    }
}
