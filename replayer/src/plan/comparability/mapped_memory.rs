//! Memory that the CPU and devices share, and the launches in flight that use it.

use crate::base::addresses::PAGE;
use crate::base::ranges::widen;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use trace::api::effect::Memory as Kind;
use trace::api::roles::Class;
use trace::model::memory::{Allocation, Memory};
use trace::model::objects::Objects;
use trace::model::outstanding::{Outstanding, Wait};
use trace::read::call::Content;
use trace::{Call, Function};

#[derive(Default)]
pub(crate) struct MappedMemory {
    pub work: Outstanding,
    /// Where the pinned and managed memory begins that each launch was given.
    given: HashMap<u64, Vec<u64>>,
}

/// What the driver moves between the CPU and a device at once, at most: a block of managed memory.
const MOVED: u64 = 2 << 20;

/// Words of a launch's arguments.
pub(crate) fn arguments(call: &Call) -> impl Iterator<Item = u64> {
    let packed = call.images().find_map(|image| match image.content {
        Content::Arguments { packed, .. } => Some(packed),
        _ => None,
    });
    packed.unwrap_or(&[]).chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("8 bytes")))
}

impl MappedMemory {
    /// Moves past a call, as [`Outstanding::advance`] does.
    pub(crate) fn observe(&mut self, call: &Call, function: &'static Function, objects: &Objects) -> Option<Wait> {
        let told = self.work.advance(call, function, objects);
        let is_any = || self.has_pinned() || self.memory().has(Kind::Managed);
        if function.class == Class::launch && call.took_effect() && is_any() {
            self.give(call, function);
        }
        told
    }

    fn memory(&self) -> &Memory {
        &self.work.streams.memory
    }

    fn give(&mut self, call: &Call, function: &Function) {
        let given: Vec<u64> = if function.launches_graph() {
            // Its nodes may have been given any.
            let managed = self.memory().live().filter(|one| one.kind == Kind::Managed);
            managed.filter_map(Allocation::address).collect()
        } else {
            let any = |word| self.memory().find(word).filter(|one| one.kind.is_in_reach())?.address();
            arguments(call).filter_map(any).collect()
        };
        if given.is_empty() || !self.work.is_under_way(call.number) {
            return;
        }
        self.given.insert(call.number, given);
        if self.given.len().is_power_of_two() {
            let under_way: HashSet<u64> = self.work.under_way().collect();
            self.given.retain(|launch, _| under_way.contains(launch));
        }
    }

    /// Launches not known to have finished which were given the pinned memory that holds this address.
    pub(crate) fn launches_using_pinned(&self, address: u64) -> Vec<u64> {
        let Some(piece) = self.pinned_around(address) else { return Vec::new() };
        self.launches_using(|given| given == piece.start)
    }

    /// Launches not known to have finished which were given managed memory that the driver may move together
    /// with this.
    pub(crate) fn launches_using_managed(&self, memory: &Range<u64>) -> Vec<u64> {
        let blocks = widen(memory.clone(), MOVED);
        let beside = self.memory().overlapping(blocks).filter(|one| one.kind == Kind::Managed);
        let beside: Vec<u64> = beside.filter_map(Allocation::address).collect();
        self.launches_using(|given| beside.contains(&given))
    }

    fn launches_using(&self, is_meant: impl Fn(u64) -> bool) -> Vec<u64> {
        let is_given =
            |call: &u64| self.given.get(call).is_some_and(|given| given.iter().any(|start| is_meant(*start)));
        self.work.under_way().filter(is_given).collect()
    }

    pub(crate) fn has_pinned(&self) -> bool {
        self.memory().has(Kind::Pinned) || self.memory().has(Kind::Registered)
    }

    /// The pinned memory that holds this address.
    pub(crate) fn pinned_around(&self, address: u64) -> Option<Range<u64>> {
        self.memory().find(address).filter(|one| one.kind.is_host()).map(Allocation::range)
    }

    /// Whether other pinned memory than the piece lies on the pages of this part of it.
    pub(crate) fn has_neighbours(&self, piece: &Range<u64>, part: &Range<u64>) -> bool {
        let mut on_pages = self.memory().overlapping(widen(part.clone(), PAGE)).filter(|one| one.kind.is_host());
        on_pages.any(|one| one.address() != Some(piece.start))
    }

    /// Pinned memory that a launch is given as a whole, by its start.
    pub(crate) fn whole_pinned_arguments(&self, call: &Call) -> Vec<Range<u64>> {
        arguments(call).filter_map(|word| self.pinned_around(word).filter(|piece| piece.start == word)).collect()
    }
}
