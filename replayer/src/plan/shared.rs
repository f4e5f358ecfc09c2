//! Memory that the CPU and devices share, and which launches under way were given it.

use crate::addresses::PAGE;
use crate::ranges::widen;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use trace::api::effect::Memory;
use trace::api::roles::Class;
use trace::call::Content;
use trace::model::change::{Change, resolve};
use trace::model::outstanding::{Outstanding, Wait};
use trace::objects::Objects;
use trace::{Call, Function};

#[derive(Default)]
pub struct Shared {
    pub work: Outstanding,
    /// Pinned and managed memory, start to end, and which of it each launch was given.
    pinned: BTreeMap<u64, u64>,
    managed: BTreeMap<u64, u64>,
    given: HashMap<u64, Vec<u64>>,
}

/// What the driver moves between the CPU and a device at once, at most: a block of managed memory.
const MOVED: u64 = 2 << 20;

/// Words of a launch's arguments.
pub fn arguments(call: &Call) -> impl Iterator<Item = u64> {
    let packed = call.images().find_map(|image| match image.content {
        Content::Arguments { packed, .. } => Some(packed),
        _ => None,
    });
    packed.unwrap_or(&[]).chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("8 bytes")))
}

fn around(memory: &BTreeMap<u64, u64>, address: u64) -> Option<u64> {
    let (start, end) = memory.range(..=address).next_back()?;
    (address < *end).then_some(*start)
}

impl Shared {
    /// Moves past a call, as [`Outstanding::see`] does.
    pub fn see(&mut self, call: &Call, function: &'static Function, objects: &Objects) -> Option<Wait> {
        let told = self.work.see(call, function, objects);
        if !call.took_effect() {
            return told;
        }
        match function.class {
            Class::allocate | Class::free => self.follow_memory(call, function),
            Class::launch if !(self.pinned.is_empty() && self.managed.is_empty()) => self.give(call, function),
            _ => {}
        }
        told
    }

    fn follow_memory(&mut self, call: &Call, function: &Function) {
        match resolve(call, function) {
            Some(Change::Allocated { kind, at, bytes, .. }) => {
                let end = at.saturating_add(bytes.unwrap_or(0));
                match kind {
                    Memory::Pinned | Memory::Registered => _ = self.pinned.insert(at, end),
                    Memory::Managed => _ = self.managed.insert(at, end),
                    _ => {}
                }
            }
            Some(Change::Freed { kind: Memory::Pinned | Memory::Registered, at }) => _ = self.pinned.remove(&at),
            Some(Change::Freed { at, .. }) => _ = self.managed.remove(&at),
            _ => {}
        }
    }

    fn give(&mut self, call: &Call, function: &Function) {
        let given: Vec<u64> = if function.launches_graph() {
            // Its nodes may have been given any.
            self.managed.keys().copied().collect()
        } else {
            let any = |word| around(&self.pinned, word).or_else(|| around(&self.managed, word));
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
    pub fn given_to(&self, address: u64) -> Vec<u64> {
        let Some(start) = around(&self.pinned, address) else { return Vec::new() };
        self.launches_given(|given| given == start)
    }

    /// Launches not known to have finished which were given managed memory that the driver may move together
    /// with this.
    pub fn given_beside(&self, memory: &Range<u64>) -> Vec<u64> {
        let blocks = widen(memory.clone(), MOVED);
        let beside = self.managed.range(..blocks.end).filter(|(_, end)| **end > blocks.start);
        let beside: Vec<u64> = beside.map(|(start, _)| *start).collect();
        self.launches_given(|given| beside.contains(&given))
    }

    fn launches_given(&self, is_meant: impl Fn(u64) -> bool) -> Vec<u64> {
        let is_given =
            |call: &u64| self.given.get(call).is_some_and(|given| given.iter().any(|start| is_meant(*start)));
        self.work.under_way().filter(is_given).collect()
    }

    pub fn has_pinned(&self) -> bool {
        !self.pinned.is_empty()
    }

    /// The pinned memory that holds this address.
    pub fn pinned_around(&self, address: u64) -> Option<Range<u64>> {
        let start = around(&self.pinned, address)?;
        Some(start..self.pinned[&start])
    }

    /// Whether other pinned memory than the piece lies on the pages of this part of it.
    pub fn has_neighbours(&self, piece: &Range<u64>, part: &Range<u64>) -> bool {
        let pages = widen(part.clone(), PAGE);
        let met = self.pinned.range(..pages.end).rev().take_while(|(_, end)| **end > pages.start);
        let mut starts = met.map(|(start, _)| *start);
        starts.any(|start| start != piece.start)
    }

    /// Pinned memory that a launch is given as a whole, by its start.
    pub fn given_whole(&self, call: &Call) -> Vec<Range<u64>> {
        arguments(call).filter_map(|word| Some(word..*self.pinned.get(&word)?)).collect()
    }
}
