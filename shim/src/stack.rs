//! What of the calling thread's stack may be read before the driver has accepted it.

use crate::lane::Lane;
use crate::probe::bytes_at;
use std::borrow::Cow;

/// The part of the calling thread's stack that is in use: what lies there can be read without asking Linux.
pub struct Stack {
    from: u64,
    to: u64,
}

impl Stack {
    pub fn here(lane: &Lane) -> Stack {
        let mark = 0u8;
        let from = std::ptr::from_ref(&mark) as u64;
        // On a stack of its own (a coroutine, a signal handler) nothing is known.
        let to = lane.stack().filter(|stack| stack.contains(&from)).map_or(from, |stack| stack.end);
        Stack { from, to }
    }

    pub fn bytes(&self, at: u64, len: usize) -> Option<Cow<'static, [u8]>> {
        self.used(at, len).map(Cow::Borrowed).or_else(|| bytes_at(at, len, true))
    }

    /// The bytes, if they all lie here.
    pub fn used(&self, at: u64, len: usize) -> Option<&'static [u8]> {
        let inside = at >= self.from && at.saturating_add(len as u64) <= self.to;
        // SAFETY: that part of the stack is mapped, and the calls whose frames these are have not returned.
        inside.then(|| unsafe { std::slice::from_raw_parts(at as *const u8, len) })
    }
}
