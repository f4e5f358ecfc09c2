//! The live ranges: every address that a device may touch lies in one of them.

use std::collections::BTreeMap;

use parking_lot::{RwLock, RwLockReadGuard};

use super::{graph_allocation, ipc, pages};
use crate::abi::Handle;
use crate::abi::code::{Code, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Device,
    /// Stream-ordered, from the pool of this handle.
    Pool(Handle),
    Managed,
    /// Allocated by cuMemHostAlloc with these flags.
    Pinned(u32),
    /// The application's own memory, registered with these flags.
    Registered(u32),
    /// A piece of this physical allocation, mapped into a reservation.
    Mapped(Handle),
    /// Variables of a module, some of them for the CPU, too.
    Module {
        managed: bool,
    },
    /// Allocated by a graph; accessible from its allocating node to its freeing one.
    Graph,
    /// Of another process.
    Imported,
}

impl Kind {
    /// Memory of the host, which devices reach over the bus.
    pub(crate) fn host(self) -> bool {
        matches!(self, Kind::Pinned(_) | Kind::Registered(_))
    }

    pub(crate) fn managed(self) -> bool {
        matches!(self, Kind::Managed | Kind::Module { managed: true })
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub start: u64,
    pub size: u64,
    pub kind: Kind,
    pub device: i32,
    /// The context it belongs to, or 0.
    pub context: Handle,
    pub id: u64,
    pub access: Access,
}

/// The devices that may read and write a range, one bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Access {
    readers: u64,
    writers: u64,
}

impl Access {
    pub(crate) const OF_ALL: Self = Self { readers: u64::MAX, writers: u64::MAX };

    /// A device's access flags: 1 read, 2 write.
    pub(crate) fn set(&mut self, device: i32, flags: u32) {
        let bit = 1u64.checked_shl(device as u32).unwrap_or(0);
        for (devices, flag) in [(&mut self.readers, 1), (&mut self.writers, 2)] {
            *devices = if flags & flag != 0 { *devices | bit } else { *devices & !bit };
        }
    }

    /// The flags of a device, or those that any has.
    pub(crate) fn flags(self, device: Option<i32>) -> u32 {
        let of = device.map_or(u64::MAX, |device| 1u64.checked_shl(device as u32).unwrap_or(0));
        u32::from(self.readers & of != 0) | u32::from(self.writers & of != 0) << 1
    }
}

impl Range {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.size
    }
}

/// Addresses with equal access rights.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub start: u64,
    pub end: u64,
    pub writable: bool,
}

/// The destination of work: a stream now, or a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Submission {
    Now,
    Node,
}

static RANGES: RwLock<BTreeMap<u64, Range>> = RwLock::new(BTreeMap::new());

/// The locked table: while this lives no range ends.
pub(crate) struct Ranges<'a> {
    all: RwLockReadGuard<'a, BTreeMap<u64, Range>>,
    /// Whose access counts; without one that of any device.
    device: Option<i32>,
}

pub(crate) fn read() -> Ranges<'static> {
    Ranges { all: RANGES.read(), device: None }
}

/// The table as work on a device finds it.
pub(crate) fn read_on(device: i32) -> Ranges<'static> {
    Ranges { all: RANGES.read(), device: Some(device) }
}

/// What the driver says it knows around this address: memory of a graph only once a launch has allocated it
/// (driver 580, tests/gpu/facts/graph_memory.c).
pub(crate) fn find_live(address: u64) -> Option<Range> {
    let range = *read().find(address)?;
    (range.kind != Kind::Graph || graph_allocation::live(range.start)).then_some(range)
}

impl Range {
    /// Gives the pages of a part of it back to the host, so that they are zeros again. False if it cannot be
    /// done so.
    pub(crate) fn empty(&self, at: u64, size: u64) -> bool {
        let shared = match self.kind {
            Kind::Device => ipc::is_exported(self.start),
            Kind::Pool(_) => false,
            Kind::Mapped(_) | Kind::Imported => true,
            _ => return false,
        };
        at + size <= self.end() && pages::empty(at, size, shared)
    }
}

impl Ranges<'_> {
    pub(crate) fn find(&self, address: u64) -> Option<&Range> {
        let (_, range) = self.all.range(..=address).next_back()?;
        (address < range.end()).then_some(range)
    }

    /// The addresses around this one that can be reached without a gap.
    pub(crate) fn span(&self, address: u64) -> Option<Span> {
        let flags = |range: &Range| range.access.flags(self.device);
        let first = self.find(address).filter(|r| flags(r) & 1 != 0)?;
        let mut span = Span { start: first.start, end: first.end(), writable: flags(first) & 2 != 0 };
        if matches!(first.kind, Kind::Mapped(_)) {
            // Neighbouring pieces of a reservation are one range to a kernel.
            for next in self.all.range(span.end..).map(|(_, r)| r) {
                if next.start != span.end || flags(next) != flags(first) {
                    break;
                }
                span.end = next.end();
            }
        }
        Some(span)
    }

    /// Whether all of these bytes can be reached.
    pub(crate) fn covers(&self, address: u64, size: u64, write: bool) -> bool {
        let Some(end) = address.checked_add(size) else { return false };
        let mut at = address;
        while at < end {
            match self.span(at) {
                Some(span) if span.writable || !write => at = span.end,
                _ => return false,
            }
        }
        true
    }

    /// Whether a submission may name these bytes: what a graph has allocated by then counts, though the
    /// device may not have got so far.
    pub(crate) fn accepts(&self, address: u64, size: u64, write: bool, submission: Submission) -> bool {
        match self.find(address).filter(|r| r.kind == Kind::Graph) {
            Some(range) => {
                let inside = address.checked_add(size).is_some_and(|end| end <= range.end());
                inside && (submission == Submission::Node || graph_allocation::live(range.start))
            }
            None => self.covers(address, size, write),
        }
    }

    pub(crate) fn overlapping(&self, start: u64, end: u64) -> Vec<Range> {
        let before = self.all.range(..start).next_back().filter(|(_, r)| r.end() > start);
        before.into_iter().chain(self.all.range(start..end)).map(|(_, r)| *r).collect()
    }
}

/// Enters a range.
pub(crate) fn insert(range: Range) -> Result {
    let mut all = RANGES.write();
    let overlaps = Ranges::overlaps(&all, range.start, range.end());
    if overlaps {
        return Err(Code::INVALID_VALUE);
    }
    all.insert(range.start, range);
    Ok(())
}

impl Ranges<'_> {
    fn overlaps(all: &BTreeMap<u64, Range>, start: u64, end: u64) -> bool {
        all.range(..end).next_back().is_some_and(|(_, r)| r.end() > start)
    }
}

/// Takes out the range that starts there, if `test` accepts it. No kernel or copy is inside it when this
/// returns.
pub(crate) fn remove(start: u64, test: impl Fn(&Range) -> bool) -> Option<Range> {
    let mut all = RANGES.write();
    all.get(&start).filter(|r| test(r))?;
    all.remove(&start)
}

/// Takes out every range that `test` picks.
pub(crate) fn remove_all(test: impl Fn(&Range) -> bool) -> Vec<Range> {
    let mut all = RANGES.write();
    let starts: Vec<_> = all.values().filter(|r| test(r)).map(|r| r.start).collect();
    starts.iter().filter_map(|start| all.remove(start)).collect()
}

/// Does something while no kernel or copy is inside any range.
pub(crate) fn while_idle<T>(work: impl FnOnce() -> T) -> T {
    let _all = RANGES.write();
    work()
}

/// Changes what devices may do with the ranges between two addresses.
pub(crate) fn set_access(start: u64, end: u64, change: impl Fn(&mut Access)) {
    RANGES.write().range_mut(start..end).for_each(|(_, range)| change(&mut range.access));
}

/// A number that no other range has had.
pub(crate) fn next_id() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}
