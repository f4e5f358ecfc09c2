//! The one rule that converts a recorded address to an address for the driver.
//!
//! A trace may name any address, and its memory may be missing here: it could not be allocated, it has been
//! freed, or the trace is forged. Under unified addressing the driver takes unknown addresses for host
//! memory, and would write to the replay's own memory there. So an address at which the driver reads or
//! writes bytes is a [`LiveAddress`], which only this rule makes: all of the bytes lie in memory that the
//! replay holds for them now.
//!
//! Kernel arguments and payloads are exempt ([`words`](crate::memory::words)): kernels run on the device.

use crate::driver::{Failure, result};
use crate::memory::buffer::HostBuffer;
use crate::memory::place::Placement;
use crate::memory::translate::MovedObject;
use std::ops::Range;

/// An address of memory that the replay owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LiveAddress(u64);

impl LiveAddress {
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    /// Of bytes that the driver only reads.
    pub(crate) fn read_only(bytes: &[u8]) -> LiveAddress {
        LiveAddress(bytes.as_ptr() as u64)
    }

    pub(crate) fn from_buffer(memory: &HostBuffer) -> LiveAddress {
        LiveAddress(memory.address())
    }

    /// Of host memory that the replay has found or made for the whole of a recorded range.
    pub(crate) fn host(address: u64) -> LiveAddress {
        LiveAddress(address)
    }
}

impl Placement<'_> {
    /// Where the memory at these recorded addresses is now; none unless all of it is there.
    pub(crate) fn bound(&self, recorded: &Range<u64>) -> Option<LiveAddress> {
        if recorded.is_empty() {
            return Some(LiveAddress(self.moved(recorded.start).unwrap_or(recorded.start)));
        }
        if let Some((live, of)) = self.translated(recorded) {
            let here = live..live.checked_add(recorded.end - recorded.start)?;
            let is_here = match of {
                MovedObject::Memory => self.is_pinned_elsewhere(&here) || self.is_devices(&here),
                // No free ends it for us, but its graph's end may.
                MovedObject::Graph => self.is_devices(&here),
                MovedObject::Reservation => true,
            };
            return is_here.then_some(LiveAddress(live));
        }
        let is_placed = self.held.covers(recorded) && !self.is_missing(recorded);
        (is_placed || self.pages.covers(recorded)).then_some(LiveAddress(recorded.start))
    }

    /// The same for a node of a graph: the driver does not know memory of a graph until a launch has
    /// allocated it.
    pub(crate) fn bound_in_node(&self, recorded: &Range<u64>) -> Option<LiveAddress> {
        let of_graph =
            || self.translated(recorded).filter(|(_, of)| *of == MovedObject::Graph).map(|(live, _)| LiveAddress(live));
        self.bound(recorded).or_else(of_graph)
    }

    /// Where a range is that moved as a whole, and what lies there.
    fn translated(&self, recorded: &Range<u64>) -> Option<(u64, MovedObject)> {
        if !self.translation.is_in_use() {
            return None;
        }
        let tables = self.translation.tables();
        let learned = || Some((tables.learned(recorded.start)?, MovedObject::Memory));
        tables.live_range(recorded).or_else(|| learned().filter(|_| !self.is_in_place(recorded.start)))
    }

    /// Whether the driver itself says that all of this is device memory: what the trace says of contexts,
    /// modules and frees may not be so here. After a fault it says nothing, and does nothing either.
    fn is_devices(&self, live: &Range<u64>) -> bool {
        let mut at = live.start;
        while at < live.end {
            let found = match self.driver.pointed(at) {
                Ok(found) => found,
                Err(Failure { code, .. }) => return code.is_some_and(result::is_sticky),
            };
            let end = found.start.saturating_add(found.len);
            if !found.is_device && !found.is_managed || end <= at {
                return false;
            }
            at = end;
        }
        true
    }

    /// Notes recorded memory that there is none for.
    pub(crate) fn misses(&self, recorded: Range<u64>) {
        self.missing.lock().insert(recorded.start, recorded.end);
    }

    pub(crate) fn misses_no_more(&self, recorded: &Range<u64>) {
        self.missing.lock().retain(|start, end| recorded.end <= *start || *end <= recorded.start);
    }

    fn is_missing(&self, recorded: &Range<u64>) -> bool {
        self.missing.lock().range(..recorded.end).any(|(_, end)| recorded.start < *end)
    }
}
