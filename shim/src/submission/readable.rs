//! The part of the program's memory that may be read before the driver has accepted the call.

use crate::os::probe::bytes_at;
use crate::records::lane::Lane;
use std::borrow::Cow;

/// Memory that can be read without a system call: the used part of the calling thread's stack, and pages that
/// the driver has read at the thread's earlier launches.
pub(crate) struct Readable<'l> {
    lane: &'l Lane,
    /// Of the stack.
    from: u64,
    to: u64,
}

impl Readable<'_> {
    pub(crate) fn here(lane: &Lane) -> Readable<'_> {
        let mark = 0u8;
        let from = std::ptr::from_ref(&mark) as u64;
        // On a stack of its own (a coroutine, a signal handler) nothing is known.
        let to = lane.stack().filter(|stack| stack.contains(&from)).map_or(from, |stack| stack.end);
        Readable { lane, from, to }
    }

    pub(crate) fn bytes(&self, at: u64, len: usize) -> Option<Cow<'static, [u8]>> {
        self.at_once(at, len).map(Cow::Borrowed).or_else(|| bytes_at(at, len, true))
    }

    /// The bytes, if they all lie in such memory.
    pub(crate) fn at_once(&self, at: u64, len: usize) -> Option<&'static [u8]> {
        let on_stack = at >= self.from && at.saturating_add(len as u64) <= self.to;
        // SAFETY: that part of the stack is mapped, and the calls whose frames these are have not returned.
        // Other pages the driver has read and is about to read again, as the program asks it to.
        (on_stack || self.lane.read_pages.have(at, len as u64))
            .then(|| unsafe { std::slice::from_raw_parts(at as *const u8, len) })
    }
}
