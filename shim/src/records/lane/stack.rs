//! The address range of the calling thread's stack.

use super::Lane;
use std::ops::Range;

impl Lane {
    /// The addresses of the calling thread's stack.
    pub(crate) fn stack(&self) -> Option<Range<u64>> {
        if self.stack.get().0 == 0 {
            self.stack.set(stack_of_thread().unwrap_or((1, 1)));
        }
        let (from, to) = self.stack.get();
        (to > 1).then_some(from..to)
    }
}

fn stack_of_thread() -> Option<(u64, u64)> {
    // SAFETY: the attributes are filled by the first call and freed by the last.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return None;
        }
        let (mut start, mut len) = (std::ptr::null_mut(), 0);
        let known = libc::pthread_attr_getstack(&attributes, &mut start, &mut len) == 0;
        libc::pthread_attr_destroy(&mut attributes);
        known.then_some((start as u64, start as u64 + len as u64))
    }
}
