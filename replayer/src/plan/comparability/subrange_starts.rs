//! The starts of subranges in pinned memory, and CPU writes found in a subrange that a launch in flight used.
//!
//! On a page that the CPU writes, every difference from the last known contents is recorded as the CPU's,
//! also bytes that a kernel wrote since. Writing these early does no harm if the kernel writes the same
//! again; a kernel that works in place does its work twice. The subrange of a launch is taken to reach from
//! its address to the next one that any work names. Memory that is used as a whole, with no other on its
//! page, is exempt: there a program that waits for flags is likely, and is named for that (`host_races.rs`).

use crate::plan::comparability::mapped_memory::{MappedMemory, arguments};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use trace::api::effect::Effect;
use trace::api::roles::Class;
use trace::model::change::freed;
use trace::model::copy_endpoints::{copy_endpoints, memory};
use trace::{Call, Function};

#[derive(Default)]
pub(crate) struct SubrangeStarts {
    /// By their starts.
    pieces: HashMap<u64, PinnedMemory>,
    /// The addresses that launches were given, of which some are under way, and nodes, of any graph.
    given: HashMap<u64, Vec<u64>>,
    nodes: BTreeSet<u64>,
    /// Of what was found in memory that is gone.
    named: Calls,
}

/// Pinned memory.
#[derive(Default)]
struct PinnedMemory {
    range: Range<u64>,
    /// Addresses in it that any work names.
    borders: BTreeSet<u64>,
    /// What was found, and before which calls: the same flag may be written very often.
    found: HashMap<ConcurrentWrite, Vec<u64>>,
}

/// What was found beside a launch under way.
#[derive(PartialEq, Eq, Hash)]
struct ConcurrentWrite {
    memory: Range<u64>,
    /// The address that the launch had been given.
    given: u64,
    /// Whether other pinned memory lies on the same pages: the driver puts small pieces side by side.
    has_neighbours: bool,
    /// Found when a call that waited had returned, not before one.
    is_meanwhile: bool,
}

/// CPU writes found in memory that a launch in flight used, by the numbers of the calls.
#[derive(Default)]
pub(crate) struct Calls {
    /// In a part of pinned memory, before a call or while it waited.
    pub in_part: BTreeSet<u64>,
    /// In all of it, while the call waited: the launch may have waited for that.
    pub meanwhile: BTreeSet<u64>,
}

impl SubrangeStarts {
    /// Moves past a call that `shared` has just moved past.
    pub(crate) fn observe(&mut self, call: &Call, function: &'static Function, shared: &MappedMemory) {
        if matches!(function.effect, Effect::Free(kind) if kind.is_host()) && call.took_effect() {
            return self.ends(freed(call, function).unwrap_or(0));
        }
        if !shared.has_pinned() || !matches!(function.class, Class::launch | Class::submit | Class::graph) {
            return;
        }
        let is_pinned = |address: &u64| shared.pinned_around(*address).is_some();
        let given: Vec<u64> = arguments(call).filter(is_pinned).collect();
        // Rows begin no parts of their own.
        let filled = || memory(call, function).into_iter().map(|range| range.start).min().into_iter().collect();
        let copied = copy_endpoints(call, function);
        let copied = copied.iter().flat_map(|copied| [copied.from.address(), copied.to.address()]).flatten();
        let copied: Vec<u64> = Some(copied.collect::<Vec<u64>>()).filter(|all| !all.is_empty()).unwrap_or_else(filled);
        for address in given.iter().copied().chain(copied) {
            if let Some(range) = shared.pinned_around(address) {
                let piece = self.pieces.entry(range.start).or_default();
                piece.range = range;
                piece.borders.insert(address);
            }
        }
        let runs_graph = function.launches_graph();
        let given = if runs_graph { self.nodes.iter().copied().collect() } else { given };
        if given.is_empty() {
            return;
        }
        if !shared.work.is_under_way(call.number) {
            // It has become a node.
            self.nodes.extend(given);
            return;
        }
        self.given.insert(call.number, given);
        if self.given.len().is_power_of_two() {
            let under_way: HashSet<u64> = shared.work.under_way().collect();
            self.given.retain(|launch, _| under_way.contains(launch));
        }
    }

    /// What the CPU has written was found before a call, or while it waited. `later`: the first call that
    /// began when it had been.
    pub(crate) fn record_write(
        &mut self,
        call: u64,
        memory: &Range<u64>,
        later: u64,
        is_meanwhile: bool,
        shared: &MappedMemory,
    ) {
        let Some(range) = shared.pinned_around(memory.start) else { return };
        let Some(piece) = self.pieces.get_mut(&range.start) else { return };
        // Each that was given is a border of those before it.
        let first = piece.borders.range(..=memory.start).next_back().copied().unwrap_or(range.start);
        let is_near = |given: &u64| (first..memory.end).contains(given);
        let launches = self.given.iter().filter(|(launch, given)| **launch < later && given.iter().any(is_near));
        let launches = launches.filter(|(launch, _)| shared.work.is_under_way(**launch));
        let given: BTreeSet<u64> = launches.flat_map(|(_, given)| given.iter().copied().filter(is_near)).collect();
        let has_neighbours = !given.is_empty() && shared.has_neighbours(&range, memory);
        for given in given {
            let beside = ConcurrentWrite { memory: memory.clone(), given, has_neighbours, is_meanwhile };
            piece.found.entry(beside).or_default().push(call);
        }
    }

    /// Once all borders are known.
    pub(crate) fn into_calls(mut self) -> Calls {
        self.pieces.into_values().for_each(|piece| piece.name(&mut self.named));
        self.named
    }

    /// The memory that begins there is given back: what is made there again has borders of its own.
    fn ends(&mut self, start: u64) {
        if let Some(piece) = self.pieces.remove(&start) {
            self.nodes.retain(|given| !piece.range.contains(given));
            piece.name(&mut self.named);
        }
    }
}

impl PinnedMemory {
    fn name(self, calls: &mut Calls) {
        let PinnedMemory { range, borders, found } = self;
        for (ConcurrentWrite { memory, given, has_neighbours, is_meanwhile }, of) in found {
            let next = borders.range(given + 1..).next().copied().unwrap_or(range.end);
            let is_met = memory.start < next && given < memory.end;
            let is_part = given != range.start || next != range.end || has_neighbours;
            match (is_met, is_part) {
                (true, true) => calls.in_part.extend(of),
                (true, false) if is_meanwhile => calls.meanwhile.extend(of),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_reaches_to_the_next_border() {
        let calls = |borders: &[u64], memory: Range<u64>, given| {
            let beside = |is_meanwhile| {
                let (memory, has_neighbours) = (memory.clone(), borders.is_empty());
                ConcurrentWrite { memory, given, has_neighbours, is_meanwhile }
            };
            let found = HashMap::from([(beside(false), vec![7, 9]), (beside(true), vec![8])]);
            let piece = PinnedMemory { range: 100..200, borders: borders.iter().copied().collect(), found };
            let mut calls = Calls::default();
            piece.name(&mut calls);
            (calls.in_part.into_iter().collect::<Vec<_>>(), calls.meanwhile.into_iter().collect::<Vec<_>>())
        };
        let (part, nothing) = ((vec![7, 8, 9], vec![]), (vec![], vec![]));
        assert_eq!(calls(&[100, 150], 110..120, 100), part);
        assert_eq!(calls(&[100, 150], 150..160, 100), nothing);
        assert_eq!(calls(&[100, 150], 140..160, 150), part);
        // The whole is not meant, but where it was found while a call waited.
        assert_eq!(calls(&[100], 110..120, 100), (vec![], vec![8]));
        assert_eq!(calls(&[120], 110..130, 120), part);
        // Unless it shares its page.
        assert_eq!(calls(&[], 110..120, 100), part);
    }
}
