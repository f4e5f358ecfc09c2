//! Device memory with known contents after the first gap of a capture range: memory that the range itself has
//! filled since.
//!
//! A gap may have changed all existing memory, and its work may still be in flight when the range resumes. So
//! only memory counts that was allocated since, or filled after a wait for all work of the only context. A
//! launch that reaches only such memory makes more memory known: through its arguments, and through addresses
//! in bytes that were copied there or to memory that leads there. Its code must be found, without module
//! variables and without a heap. In case of doubt nothing is known any more, as after another gap.

use crate::base::addresses::looks_like_address;
use crate::base::ranges::Ranges;
use crate::plan::comparability::reach::Allocations;
use crate::plan::survey::walk::extent;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use trace::api::effect::{Memory as Kinds, Work};
use trace::api::roles::{Class, Extent, Role};
use trace::api::table::Awaited;
use trace::api::types::{Form, Kind};
use trace::model::change::Change;
use trace::model::copy_endpoints::{CopyEndpoints, End, copy_endpoints};
use trace::model::streams::Followed;
use trace::read::call::{Content, When};
use trace::show::sources::SelfContained;
use trace::{Call, Function, Trace};

#[derive(Default)]
pub(crate) struct KnownContents {
    /// Starts of gaps that are yet to come, the next one last. None before the first call.
    gaps: Option<Vec<u64>>,
    memory: BTreeMap<u64, KnownAllocation>,
    contexts: BTreeSet<u64>,
    /// All work has been waited for since.
    is_quiet: bool,
    has_images: bool,
    self_contained: SelfContained,
    /// Copies to the host, behind the first gap, of which it is known what they bring.
    pub copies: HashSet<u64>,
}

/// Whether it is submitted and touches no memory of devices.
fn only_orders(function: &Function) -> bool {
    matches!(function.work(), Some(Work::RecordEvent | Work::AwaitEvent | Work::HostFunction))
}

const IMAGES: [Kind; 6] =
    [Kind::Array, Kind::MipmappedArray, Kind::Texture, Kind::Surface, Kind::TextureRef, Kind::SurfaceRef];

/// An allocation of memory that calls alone fill.
struct KnownAllocation {
    end: u64,
    /// Nothing left out can have used it.
    is_fresh: bool,
    /// In order, apart from each other.
    known: Vec<Range<u64>>,
    /// Other allocations whose addresses it may hold.
    leads: BTreeSet<u64>,
}

/// The state from which all other memory is distinguished from the memory followed here.
pub(crate) struct OtherMemory<'s> {
    pub live: &'s Allocations,
    pub host: &'s Ranges,
    /// The call becomes part of a graph.
    pub is_captured: bool,
    pub change: Option<Change>,
    pub followed: &'s Followed,
}

impl KnownAllocation {
    fn is_known(&self, range: &Range<u64>) -> bool {
        self.known.iter().any(|known| known.start <= range.start && range.end <= known.end)
    }

    fn forget(&mut self, range: &Range<u64>) {
        let parts = |known: &Range<u64>| {
            let (before, after) = (known.start..known.end.min(range.start), known.start.max(range.end)..known.end);
            [before, after].into_iter().filter(|part| part.start < part.end)
        };
        self.known = self.known.iter().flat_map(parts).collect();
    }

    fn learn(&mut self, range: Range<u64>) {
        self.known.push(range);
        self.known.sort_by_key(|known| known.start);
        let mut merged = Vec::<Range<u64>>::new();
        for next in self.known.drain(..) {
            match merged.last_mut().filter(|last| next.start <= last.end) {
                Some(last) => last.end = last.end.max(next.end),
                None => merged.push(next),
            }
        }
        self.known = merged;
    }
}

impl KnownContents {
    /// Follows a call that took effect. False if it is work that begins with memory of which it is not known
    /// what it holds.
    pub(crate) fn observe(
        &mut self,
        trace: &Trace,
        call: &Call,
        function: &'static Function,
        others: &OtherMemory,
    ) -> bool {
        let Some(since) = trace.unknown_since else { return true };
        let gaps = self.gaps.get_or_insert_with(|| {
            let mut all: Vec<u64> =
                trace.left_out.iter().filter(|left| left.works > 0).map(|left| left.begin).collect();
            all.sort_unstable_by_key(|begin| std::cmp::Reverse(*begin));
            all
        });
        let mut is_behind_another = false;
        while gaps.last().is_some_and(|begin| *begin < call.begin) {
            gaps.pop();
            is_behind_another = true;
        }
        if is_behind_another {
            self.forget();
        }
        self.follow(call, function, others);
        if call.begin <= since {
            return true;
        }
        // Another thread may have gone on with what is left out. The recorder's own, which has no id, calls
        // nothing.
        let is_alone = trace.threads.iter().filter(|thread| thread.os_id != 0).count() == 1;
        let known = is_alone && !others.is_captured && !self.has_images;
        match function.class {
            Class::synchronize if matches!(function.awaited(), Some(Awaited::Context(_))) => {
                self.is_quiet |= self.contexts.len() <= 1;
                true
            }
            Class::launch => {
                let reached = if known { self.reached(trace, call, others) } else { None };
                self.launched(reached)
            }
            Class::submit if only_orders(function) => true,
            Class::copy | Class::submit => known && self.moved(call, function, others),
            _ => true,
        }
    }

    /// From here on all memory may hold anything, and work may be under way that changes it.
    fn forget(&mut self) {
        self.is_quiet = false;
        for memory in self.memory.values_mut() {
            memory.is_fresh = false;
            memory.known.clear();
        }
    }

    fn follow(&mut self, call: &Call, function: &Function, others: &OtherMemory) {
        for start in others.followed.gone.iter().filter_map(|(one, _)| one.address()) {
            self.memory.remove(&start);
        }
        let is_allocated = matches!(others.change, Some(Change::Allocated { .. }));
        let made = others.followed.made.iter().filter(|_| is_allocated);
        for made in made.filter(|made| matches!(made.kind, Kinds::Device | Kinds::Pooled)) {
            let Range { start, end } = made.range();
            self.memory
                .insert(start, KnownAllocation { end, is_fresh: true, known: Vec::new(), leads: BTreeSet::new() });
        }
        match others.change {
            Some(Change::ContextSet { context } | Change::ContextPushed { context }) if context != 0 => {
                self.contexts.insert(context);
            }
            _ => {
                let handed_out = [Kind::Context, Kind::GreenContext].map(|kind| function.hands_out(kind));
                self.contexts.extend(handed_out.into_iter().flatten().filter_map(|at| call.output_of(at)));
            }
        }
        // Their handles are small numbers, and what they stand for is not followed.
        self.has_images |= function.params.iter().any(|param| match param.ty.form {
            Form::Pointer(to) => matches!(to.form, Form::Handle(kind) if IMAGES.contains(&kind)),
            _ => false,
        });
    }

    /// The allocation that holds an address, by its start.
    fn allocation_around(&self, address: u64) -> Option<u64> {
        let (start, memory) = self.memory.range(..=address).next_back()?;
        (address < memory.end).then_some(*start)
    }

    /// What a launch can reach, if it is all known.
    fn reached(&mut self, trace: &Trace, call: &Call, others: &OtherMemory) -> Option<BTreeSet<u64>> {
        let (kernel, packed) = call.images().find_map(|image| match image.content {
            Content::Arguments { kernel, packed, .. } => Some((call.kernel(kernel)?, packed)),
            _ => None,
        })?;
        if !self.self_contained.holds(trace, kernel, call.number) {
            return None;
        }
        let mut open = Vec::new();
        // Arguments lie one behind the other, each in whole words.
        let mut rest = packed;
        for (_, size) in kernel.params.as_ref()? {
            let (argument, behind) = rest.split_at_checked(size.div_ceil(8) as usize * 8)?;
            rest = behind;
            for word in words(&argument[..*size as usize]) {
                match self.allocation_around(word) {
                    Some(start) => open.push(start),
                    None if others.hold(word) || looks_like_address(word) => return None,
                    None => {}
                }
            }
        }
        let mut reached = BTreeSet::new();
        while let Some(start) = open.pop() {
            if reached.insert(start) {
                // What it led to may be gone.
                let memory = self.memory.get(&start)?;
                if !memory.is_known(&(start..memory.end)) {
                    return None;
                }
                open.extend(&memory.leads);
            }
        }
        Some(reached)
    }

    /// Whether a launch has left known memory where it can have written.
    fn launched(&mut self, reached: Option<BTreeSet<u64>>) -> bool {
        let Some(reached) = reached else {
            self.forget();
            return false;
        };
        for start in &reached {
            self.memory.get_mut(start).into_iter().for_each(|memory| memory.leads.extend(&reached));
        }
        true
    }

    /// A copy or fill: whether it is known what it brings.
    fn moved(&mut self, call: &Call, function: &'static Function, others: &OtherMemory) -> bool {
        let is = |role: fn(&Role) -> bool| function.params.iter().any(|param| role(&param.role));
        let is_fill = is(|role| matches!(role, Role::Writes(_)))
            && !is(|role| matches!(role, Role::Reads(_) | Role::Source(_) | Role::Sink(_)));
        if is_fill {
            // Rows, and values that streams write, are not followed.
            let is_plain = |role| matches!(role, Role::Writes(Extent::Len(_) | Extent::Scaled(..)));
            let mut writes = function.params.iter().filter(|param| is_plain(param.role));
            let filled = writes.find_map(|param| Some((call.argument(param.name)?, extent(call, function, param)?)));
            return match filled.filter(|_| function.work() == Some(Work::Fill)) {
                Some((at, len)) => self.written(at, len, Some(BTreeSet::new())),
                None => self.launched(None),
            };
        }
        let copies = copy_endpoints(call, function);
        if copies.is_empty() || copies.iter().any(|copy| !copy.is_dense) {
            return self.launched(None);
        }
        // All of them are followed.
        let known: Vec<bool> = copies.iter().map(|copy| self.copied(call, copy, others)).collect();
        !known.contains(&false)
    }

    fn copied(&mut self, call: &Call, copy: &CopyEndpoints, others: &OtherMemory) -> bool {
        let place = |end: End| end.address().filter(|_| end != End::Array);
        let (Some(from), Some(to)) = (place(copy.from), place(copy.to)) else { return self.launched(None) };
        let brought = match self.allocation_around(from) {
            Some(start) => {
                let memory = &self.memory[&start];
                let is_known = memory.is_known(&(from..from.saturating_add(copy.bytes)));
                is_known.then(|| memory.leads.iter().copied().chain([start]).collect())
            }
            None if others.live.holds(from) && !others.host.contains(from) => None,
            // The CPU's bytes, which are in the trace.
            None => call.memory(When::Entry, from, copy.bytes).and_then(|bytes| {
                let addresses =
                    words(&bytes).filter(|word| self.allocation_around(*word).is_some() || others.hold(*word));
                addresses.map(|word| self.allocation_around(word)).collect::<Option<BTreeSet<u64>>>()
            }),
        };
        let is_known = brought.is_some();
        if self.allocation_around(to).is_some() {
            return self.written(to, copy.bytes, brought);
        }
        let is_to_device = others.live.holds(to) && !others.host.contains(to);
        if is_known && !is_to_device && self.allocation_around(from).is_some() {
            self.copies.insert(call.number);
        }
        is_known && !is_to_device
    }

    /// `brought`: where its bytes may lead, if they are known.
    fn written(&mut self, at: u64, len: u64, brought: Option<BTreeSet<u64>>) -> bool {
        let is_quiet = self.is_quiet;
        let range = at..at.saturating_add(len);
        let Some(start) = self.allocation_around(at) else { return false };
        let Some(memory) = self.memory.get_mut(&start).filter(|memory| range.end <= memory.end) else {
            return self.launched(None);
        };
        memory.forget(&range);
        let Some(leads) = brought else { return false };
        memory.leads.extend(leads);
        if memory.is_fresh || is_quiet {
            memory.learn(range);
        }
        true
    }
}

impl OtherMemory<'_> {
    fn hold(&self, address: u64) -> bool {
        self.live.holds(address) || self.host.contains(address)
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_joined_and_cut() {
        let mut memory = KnownAllocation { end: 100, is_fresh: true, known: Vec::new(), leads: BTreeSet::new() };
        [40..60, 0..20, 60..100].into_iter().for_each(|piece| memory.learn(piece));
        assert_eq!(memory.known, [0..20, 40..100]);
        assert!(memory.is_known(&(45..100)) && !memory.is_known(&(10..50)));
        memory.learn(10..50);
        assert!(memory.is_known(&(0..100)));
        memory.forget(&(30..31));
        assert_eq!(memory.known, [0..30, 31..100]);
        memory.forget(&(0..100));
        assert_eq!(memory.known, []);
    }
}
