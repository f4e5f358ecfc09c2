//! The program's allocations at one point of a trace, by the names that `cutrace dump` gives them.

use std::collections::BTreeMap;
use trace::model::objects::{Objects, Range};
use trace::{Call, Trace};

/// Names of live and of ended allocations.
pub(crate) struct AllocationNames {
    pub objects: Objects,
    /// The first call that has not been followed yet.
    next: u64,
    /// By their start.
    alive: BTreeMap<u64, Range>,
    /// With the call that gave them up.
    gone: Vec<(Range, u64)>,
}

/// The place of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Inside(Range),
    /// Inside an allocation that this call had given up.
    Gone(Range, u64),
    /// In none: the nearest, and how many bytes lie between the address and it. 1 is the first byte past the
    /// end.
    Missed(Range, Side, u64),
    /// There is none.
    Nowhere,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Before,
    Behind,
}

impl AllocationNames {
    /// As things were when call `at` was entered.
    pub(crate) fn before_call(trace: &Trace, at: u64) -> AllocationNames {
        let mut named = AllocationNames::new();
        named.advance(trace, at);
        if let Some(call) = trace.call(at) {
            named.objects.advance_time(&call);
        }
        named
    }

    /// Before the first call.
    pub(crate) fn new() -> AllocationNames {
        AllocationNames { objects: Objects::default(), next: 0, alive: BTreeMap::new(), gone: Vec::new() }
    }

    /// Moves on to the entry of call `at`, if that is not behind.
    pub(crate) fn advance(&mut self, trace: &Trace, at: u64) {
        for call in (self.next..at).map_while(|number| trace.call(number)) {
            self.step(&call);
        }
        self.next = self.next.max(at);
    }

    /// The call that makes an allocation of this name, whenever that is.
    pub(crate) fn birth(trace: &Trace, label: &str, number: u64) -> Option<u64> {
        let mut named = AllocationNames::new();
        let mut makes = |call: &Call| {
            named.step(call);
            named.objects.born().any(|range| (range.label, range.number) == (label, number))
        };
        trace.calls().find(|call| makes(call)).map(|call| call.number)
    }

    fn step(&mut self, call: &Call) {
        self.objects.follow(call);
        for base in self.objects.freed_ranges() {
            self.gone.extend(self.alive.remove(base).map(|range| (range, call.number)));
        }
        self.alive.extend(self.objects.born().map(|range| (range.base, range)));
    }

    /// Allocations that were alive.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range> {
        self.alive.values().copied()
    }

    /// Allocations that were not any more, with the call that gave them up.
    pub(crate) fn ended_ranges(&self) -> impl Iterator<Item = (Range, u64)> {
        self.gone.iter().copied()
    }

    /// The live allocation around an address.
    pub(crate) fn holder(&self, address: u64) -> Option<Range> {
        self.alive
            .range(..=address)
            .next_back()
            .map(|(_, range)| *range)
            .filter(|range| address - range.base < range.len)
    }

    pub(crate) fn place(&self, address: u64) -> Place {
        let holds = |range: &Range| address.checked_sub(range.base).is_some_and(|offset| offset < range.len);
        if let Some(range) = self.holder(address) {
            return Place::Inside(range);
        }
        if let Some((range, call)) = self.gone.iter().rev().find(|(range, _)| holds(range)) {
            return Place::Gone(*range, *call);
        }
        let distance = |range: &Range| match range.base.checked_sub(address) {
            Some(before) => (before, Side::Before),
            None => (address - range.base.saturating_add(range.len) + 1, Side::Behind),
        };
        match self.ranges().min_by_key(|range| (distance(range).0, range.number)) {
            Some(range) => {
                let (bytes, side) = distance(&range);
                Place::Missed(range, side, bytes)
            }
            None => Place::Nowhere,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Place::Inside(range) => write!(f, "in {}", RangeText(*range)),
            Place::Gone(range, call) => write!(f, "in {}, freed by call {call}", RangeText(*range)),
            Place::Missed(range, Side::Before, bytes) => {
                write!(f, "in no allocation; {bytes} bytes before {}, the nearest", RangeText(*range))
            }
            Place::Missed(range, Side::Behind, bytes) => {
                write!(f, "in no allocation; {bytes} bytes past the end of {}, the nearest", RangeText(*range))
            }
            Place::Nowhere => f.write_str("in no allocation: none exists"),
        }
    }
}

/// A range by its name, with its offset and length.
pub(crate) struct RangeText(pub Range);

impl std::fmt::Display for RangeText {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Range { label, number, base, len } = self.0;
        write!(f, "{label}#{number} ({base:#x}, {len} bytes)")
    }
}
