//! Where parts of pinned memory begin, and what the CPU was found to have written in one that a launch under way had been given.
//!
//! Of a page that the CPU writes, what differs from what was last known is told as the CPU's, also what a kernel has made of it since. Written early,
//! that does no harm where the kernel writes the same once more; a kernel that works in place does so twice. A launch's part is taken to
//! reach from the address that it was given to the next one that any work names. Memory that is used as a whole is not meant: there a program
//! that waits for flags is likely, and named for that (`spins.rs`).

use crate::plan::copied::memory;
use crate::plan::outstanding::{Outstanding, arguments};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use trace::api::roles::Class;
use trace::{Call, Function};

#[derive(Default)]
pub struct Borders {
    /// Addresses in pinned memory that any work names.
    all: BTreeSet<u64>,
    /// Those that launches were given, of which some are under way, and nodes, of any graph.
    given: HashMap<u64, Vec<u64>>,
    nodes: BTreeSet<u64>,
    /// The calls before which it was: the same flag may be written very often.
    found: HashMap<Found, Vec<u64>>,
}

#[derive(PartialEq, Eq, Hash)]
struct Found {
    memory: Range<u64>,
    /// What a launch under way was given, and the pinned memory around it.
    given: u64,
    piece: Range<u64>,
}

impl Borders {
    /// Moves past a call that `outstanding` has just moved past.
    pub fn see(&mut self, call: &Call, function: &'static Function, outstanding: &Outstanding) {
        if !outstanding.has_pinned() || !matches!(function.class, Class::launch | Class::submit | Class::graph) {
            return;
        }
        let is_pinned = |address: &u64| outstanding.pinned_around(*address).is_some();
        let given: Vec<u64> = arguments(call).filter(is_pinned).collect();
        self.all.extend(given.iter().copied());
        self.all.extend(memory(call, function).into_iter().map(|range| range.start).filter(is_pinned));
        let runs_graph = function.class == Class::launch && function.param("hGraphExec").is_some();
        let given = if runs_graph { self.nodes.iter().copied().filter(is_pinned).collect() } else { given };
        if given.is_empty() {
            return;
        }
        if !outstanding.is_under_way(call.number) {
            // It has become a node.
            self.nodes.extend(given);
            return;
        }
        self.given.insert(call.number, given);
        if self.given.len().is_power_of_two() {
            let under_way: HashSet<u64> = outstanding.under_way().collect();
            self.given.retain(|launch, _| under_way.contains(launch));
        }
    }

    /// What the CPU has written was found before a call. `later`: the first call that began when it had been.
    pub fn found(&mut self, call: u64, memory: &Range<u64>, later: u64, outstanding: &Outstanding) {
        let Some(piece) = outstanding.pinned_around(memory.start) else { return };
        let is_before = |given: &u64| piece.contains(given) && *given < memory.end;
        let launches = self.given.iter().filter(|(launch, given)| **launch < later && given.iter().any(is_before));
        let mut given: Vec<u64> = launches
            .filter(|(launch, _)| outstanding.is_under_way(**launch))
            .flat_map(|(_, given)| given.iter().copied().filter(is_before))
            .collect();
        given.sort_unstable();
        given.dedup();
        for given in given {
            let found = Found { memory: memory.clone(), given, piece: piece.clone() };
            self.found.entry(found).or_default().push(call);
        }
    }

    /// The calls before which something was found in a part that a launch under way had been given.
    pub fn into_calls(self) -> BTreeSet<u64> {
        let Borders { all, found, .. } = self;
        let is_met = |Found { memory, given, piece }: &Found| {
            let next = all.range(given + 1..piece.end).next().copied().unwrap_or(piece.end);
            let is_part = *given != piece.start || next != piece.end;
            is_part && memory.start < next
        };
        found.into_iter().filter(|(found, _)| is_met(found)).flat_map(|(_, calls)| calls).collect()
    }
}
