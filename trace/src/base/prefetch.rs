//! Asking the processor for memory that is read soon.
//!
//! Calls in the order of time lie in as many places of a file as it has threads, which is more than the
//! processor looks ahead in by itself.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

#[inline]
pub(crate) fn prefetch<T>(all: &[T], at: usize) {
    if let Some(wanted) = all.get(at) {
        // SAFETY: the address is that of a reference; what is there is not changed, and nothing is told of it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>((wanted as *const T).cast()) }
    }
}
