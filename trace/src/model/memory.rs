//! Live memory: ranges that calls allocated, until a call frees them or their context ends.
//!
//! Calls come in order of entry. So one thread's free may follow the allocation that got the same address on
//! another: an allocation ends whatever still lies in its range, and a free ends nothing that was allocated
//! after the free began.

use super::change::{Change, Moment};
use super::contexts::{Contexts, Owner};
use super::physical::{Physical, Pieces};
use crate::api::effect::Memory as Kind;
use foldhash::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The name of live memory. Handles of physical memory are reference-counted, and one piece may have several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Name {
    /// Memory with an address.
    Address(u64),
    /// An array or mipmapped array, by its handle.
    Array(u64),
    /// Physical memory, by a number of this model's.
    Physical(u64),
}

/// Memory that a call allocated, or a range of addresses that it reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// The address or handle.
    pub name: Name,
    /// Kind of the memory.
    pub kind: Kind,
    /// None if the call does not tell.
    pub bytes: Option<u64>,
    /// Whose memory it is; none of the host's, and of addresses alone.
    pub device: Option<i32>,
    /// The pool that the call names.
    pub pool: Option<u64>,
    /// The context that it ends with.
    pub owner: Option<Owner>,
    /// The call that got it, and when that returned.
    pub call: u64,
    /// Ticks at which the call returned.
    pub since: u64,
}

impl Allocation {
    /// The address, if it has one.
    pub fn address(&self) -> Option<u64> {
        if let Name::Address(at) = self.name { Some(at) } else { None }
    }

    /// Where it lies; nowhere if it has no address.
    pub fn range(&self) -> Range<u64> {
        let start = self.address().unwrap_or(0);
        start..start.saturating_add(self.address().and(self.bytes).unwrap_or(0))
    }

    /// The end of what it keeps others from: of memory without a length a byte.
    fn end(&self) -> u64 {
        let Range { start, end } = self.range();
        end.max(start.saturating_add(1))
    }
}

/// The way in which memory ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A call freed it.
    Freed,
    /// Its context ended.
    WithContext,
    /// Other memory is there: its free is under way on another thread, or is not in the trace.
    Overlaid,
}

/// All live memory, by address or handle.
#[derive(Default)]
pub struct Memory {
    live: BTreeMap<Name, Allocation>,
    physical: Physical,
    /// How many are live of each kind, and bytes on each device.
    counts: HashMap<Kind, usize>,
    used: HashMap<i32, u64>,
    /// By the context that they end with: a forged trace has as many contexts as allocations.
    owned: HashMap<Owner, BTreeSet<Name>>,
}

impl Memory {
    /// Follows what a call changed that becomes part of no capture: what that allocates is there when its
    /// graph runs. What the call got; to `gone` comes what it ended.
    pub fn follow(
        &mut self,
        moment: Moment,
        change: &Change,
        contexts: &Contexts,
        gone: &mut Vec<(Allocation, End)>,
    ) -> Option<Allocation> {
        let name = match (self.physical.follow(change), *change) {
            (Some(Pieces::Made(piece)), _) => Name::Physical(piece),
            (Some(Pieces::Gone(pieces)), _) => {
                let pieces = pieces.into_iter().filter_map(|piece| self.remove(Name::Physical(piece)));
                gone.extend(pieces.map(|piece| (piece, End::Freed)));
                return None;
            }
            (None, Change::Allocated { kind, at, .. }) => self.name(kind, at)?,
            (None, Change::Freed { kind, at, .. }) => {
                let freed = self.called(kind, at).filter(|one| one.since <= moment.begin).map(|one| one.name);
                gone.extend(freed.and_then(|name| self.remove(name)).map(|one| (one, End::Freed)));
                return None;
            }
            _ => return None,
        };
        let Change::Allocated { kind, bytes, pool, .. } = *change else { return None };
        let is_of_device = !kind.is_host() && kind != Kind::Addresses;
        let made = Allocation {
            name,
            kind,
            bytes,
            device: is_of_device.then(|| contexts.device_of_allocated(moment.thread, change)),
            pool,
            owner: contexts.owner(moment.thread).filter(|_| !kind.outlives_contexts()),
            call: moment.call,
            since: moment.end,
        };
        self.replace(made, gone);
        Some(made)
    }

    pub(super) fn replace(&mut self, made: Allocation, gone: &mut Vec<(Allocation, End)>) {
        self.overlaid(&made, gone);
        self.insert(made);
    }

    /// What begins at this address.
    pub(super) fn free(&mut self, at: u64) -> Option<Allocation> {
        self.remove(Name::Address(at))
    }

    /// What goes with a context, in order.
    pub fn context_ended(&mut self, context: Owner) -> Vec<Allocation> {
        let names = self.owned.remove(&context).unwrap_or_default();
        names.into_iter().filter_map(|name| self.remove(name)).collect()
    }

    /// Memory of this device that no call got, up to the next that one did; it ends with no context.
    pub fn adopt(&mut self, moment: Moment, range: Range<u64>, device: i32) {
        let next = self.live.range(Name::Address(range.start)..).find_map(|(_, one)| one.address());
        let end = next.map_or(range.end, |next| next.min(range.end));
        self.insert(Allocation {
            name: Name::Address(range.start),
            kind: Kind::Device,
            bytes: Some(end - range.start),
            device: Some(device),
            pool: None,
            owner: None,
            call: moment.call,
            since: moment.begin,
        });
    }

    /// What lies at this address.
    pub fn find(&self, address: u64) -> Option<&Allocation> {
        let (_, one) = self.live.range(..=Name::Address(address)).next_back()?;
        (address < one.end()).then_some(one)
    }

    /// What lies in this range, the last first.
    pub fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = &Allocation> {
        let before = self.live.range(..Name::Address(range.end)).rev();
        before.map(|(_, one)| one).take_while(move |one| one.end() > range.start)
    }

    /// Everything that is live, by name.
    pub fn live(&self) -> impl Iterator<Item = &Allocation> {
        self.live.values()
    }

    /// Whether any memory of this kind is live.
    pub fn has(&self, kind: Kind) -> bool {
        self.counts.get(&kind).is_some_and(|count| *count > 0)
    }

    /// Bytes that live on a device.
    pub fn used(&self, device: i32) -> u64 {
        self.used.get(&device).copied().unwrap_or(0)
    }

    /// By what it is called: an address, or a handle of this kind of memory.
    pub fn called(&self, kind: Kind, value: u64) -> Option<&Allocation> {
        self.live.get(&self.name(kind, value)?)
    }

    fn name(&self, kind: Kind, value: u64) -> Option<Name> {
        Some(match kind {
            Kind::Array => Name::Array(value),
            Kind::Physical => Name::Physical(self.physical.piece(value)?),
            _ => Name::Address(value),
        })
    }

    fn overlaid(&mut self, made: &Allocation, gone: &mut Vec<(Allocation, End)>) {
        let names: Vec<Name> = match made.address() {
            Some(at) => self.overlapping(at..made.end()).map(|one| one.name).collect(),
            None => vec![made.name],
        };
        gone.extend(names.into_iter().filter_map(|name| self.remove(name)).map(|one| (one, End::Overlaid)));
    }

    fn insert(&mut self, made: Allocation) {
        // What is known by the name is not live any more.
        self.remove(made.name);
        *self.counts.entry(made.kind).or_default() += 1;
        if let Some(device) = made.device {
            let used = self.used.entry(device).or_default();
            *used = used.saturating_add(made.bytes.unwrap_or(0));
        }
        if let Some(owner) = made.owner {
            self.owned.entry(owner).or_default().insert(made.name);
        }
        self.live.insert(made.name, made);
    }

    fn remove(&mut self, name: Name) -> Option<Allocation> {
        let gone = self.live.remove(&name)?;
        if let Some(owned) = gone.owner.and_then(|owner| self.owned.get_mut(&owner)) {
            owned.remove(&name);
        }
        self.counts.entry(gone.kind).and_modify(|count| *count -= 1);
        if let Some(device) = gone.device {
            self.used.entry(device).and_modify(|used| *used = used.saturating_sub(gone.bytes.unwrap_or(0)));
        }
        Some(gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: u64 = 0xc0;

    struct Walk {
        contexts: Contexts,
        memory: Memory,
        calls: u64,
    }

    impl Walk {
        fn new() -> Walk {
            let mut contexts = Contexts::default();
            contexts.follow(0, &Change::ContextMade { context: CONTEXT, device: 1, is_green: false });
            Walk { contexts, memory: Memory::default(), calls: 0 }
        }

        /// What the change ended, by its calls.
        fn follow(&mut self, time: Range<u64>, change: Change) -> Vec<(u64, End)> {
            self.calls += 1;
            let moment = Moment { call: self.calls, thread: 0, begin: time.start, end: time.end };
            let mut gone = Vec::new();
            self.memory.follow(moment, &change, &self.contexts, &mut gone);
            gone.into_iter().map(|(one, end)| (one.call, end)).collect()
        }

        fn at(&self, address: u64) -> Option<u64> {
            self.memory.find(address).map(|one| one.call)
        }
    }

    fn got(kind: Kind, at: u64, bytes: u64) -> Change {
        Change::Allocated { kind, at, bytes: Some(bytes), device: None, pool: None, on: None }
    }

    #[test]
    fn memory_is_found_by_an_address_within_until_it_is_freed() {
        let mut walk = Walk::new();
        walk.follow(0..1, got(Kind::Managed, 0x1000, 0x100));
        walk.follow(2..3, got(Kind::Pinned, 0x2000, 0x100));
        assert_eq!([0xfff, 0x1000, 0x10ff, 0x1100].map(|at| walk.at(at)), [None, Some(1), Some(1), None]);
        assert_eq!(walk.memory.overlapping(0x10ff..0x2001).map(|one| one.call).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((walk.memory.used(1), walk.memory.has(Kind::Managed)), (0x100, true));
        // A free that says less than the allocation did.
        assert_eq!(walk.follow(4..5, Change::Freed { kind: Kind::Device, at: 0x1000, on: None }), [(1, End::Freed)]);
        assert_eq!((walk.memory.used(1), walk.memory.has(Kind::Managed), walk.at(0x1000)), (0, false, None));
    }

    #[test]
    fn an_address_changes_hands_while_its_free_is_under_way() {
        let mut walk = Walk::new();
        walk.follow(0..1, got(Kind::Device, 0x1000, 0x200));
        assert_eq!(walk.follow(10..25, got(Kind::Device, 0x1100, 0x50)), [(1, End::Overlaid)]);
        assert_eq!(walk.follow(12..30, got(Kind::Device, 0x1000, 0x50)), []);
        assert_eq!(walk.follow(20..40, Change::Freed { kind: Kind::Device, at: 0x1000, on: None }), []);
        assert_eq!((walk.at(0x1000), walk.at(0x1100), walk.memory.used(1)), (Some(3), Some(2), 0xa0));
        assert_eq!(walk.follow(30..40, Change::Freed { kind: Kind::Device, at: 0x1000, on: None }), [(3, End::Freed)]);
    }

    #[test]
    fn memory_ends_with_its_context_or_outlives_it() {
        let mut walk = Walk::new();
        for (n, kind) in [Kind::Device, Kind::Pinned, Kind::Array, Kind::Pooled, Kind::Physical, Kind::Addresses]
            .into_iter()
            .enumerate()
        {
            walk.follow(0..1, got(kind, 0x1000 * (n as u64 + 1), 0x100));
        }
        assert_eq!(walk.memory.context_ended(Owner::Primary(1)), []);
        let gone = walk.memory.context_ended(Owner::Other(CONTEXT));
        assert_eq!(gone.iter().map(|one| one.kind).collect::<Vec<_>>(), [Kind::Device, Kind::Pinned, Kind::Array]);
        assert_eq!(walk.memory.used(1), 0x200);
    }

    /// Each end looks at its own: all of all would be 10^10.
    #[test]
    fn as_many_contexts_end_as_there_is_memory() {
        const MANY: u64 = 100_000;
        let mut walk = Walk::new();
        let owner = |n| Owner::Other(0x1000 + n);
        for n in 0..MANY {
            walk.contexts.follow(0, &Change::ContextMade { context: 0x1000 + n, device: 0, is_green: false });
            assert_eq!(walk.follow(0..1, got(Kind::Device, 0x1_0000 * (n + 1), 0x100)), []);
        }
        for n in 0..MANY {
            let gone: Vec<u64> = walk.memory.context_ended(owner(n)).iter().map(|one| one.call).collect();
            assert_eq!(gone, [n + 1]);
        }
        assert_eq!(walk.memory.live().count(), 0);
    }

    /// Whoever overlays memory does not end with its context.
    #[test]
    fn what_lies_over_memory_of_a_context_outlives_it() {
        let mut walk = Walk::new();
        walk.follow(0..1, got(Kind::Device, 0x1000, 0x100));
        walk.memory.adopt(Moment { call: 9, thread: 0, begin: 5, end: 6 }, 0x1000..0x2000, 1);
        assert_eq!(walk.memory.context_ended(Owner::Other(CONTEXT)), []);
    }

    #[test]
    fn what_nobody_got_reaches_up_to_what_somebody_did() {
        let mut walk = Walk::new();
        walk.follow(0..1, got(Kind::Device, 0x1800, 0x100));
        let moment = Moment { call: 9, thread: 0, begin: 5, end: 6 };
        walk.memory.adopt(moment, 0x1000..0x2000, 1);
        assert_eq!([0x1000, 0x17ff, 0x1800, 0x1900].map(|at| walk.at(at)), [Some(9), Some(9), Some(1), None]);
    }
}
