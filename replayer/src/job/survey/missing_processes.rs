//! Processes of the job that are not replayed beside this one: they may have written its exports, and their
//! own exports are missing.

use crate::base::ranges::Ranges;
use crate::job::peers::NOT_EXPORTED;
use crate::plan::comparability::reach::described;
use crate::plan::survey::walk::{Survey, extent};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use trace::api::effect::{Effect, Memory};
use trace::api::roles::{Class, Field, Role};
use trace::api::types::{Form, Kind};
use trace::model::change::Change;
use trace::read::shared_handles::{self, Crossing, What, exported_address};
use trace::{Call, Function, Trace};

const WRITTEN_BY_OTHERS: &str =
    "exported memory may be written by processes that are not replayed: their writes are not in the trace";

const USES: &str = "uses memory of a process that is not replayed";

const OF_GRAPH: &str = "its graph may have missing nodes: calls that add some were refused";

/// Imported memory is not longer, where nothing tells how long it is.
const MOST: u64 = 1 << 39;

#[derive(Default)]
pub(crate) struct MissingProcesses {
    exports: Vec<Export>,
    /// Exports of this process that it imports itself.
    own: HashSet<u64>,
    /// Physical memory that the process has exported, by its handle: the first call that did.
    exported: BTreeMap<u64, u64>,
    /// Where physical memory is mapped, by its handle.
    mapped: HashMap<u64, BTreeSet<u64>>,
    /// What is mapped where, by its handle.
    mappings: BTreeMap<u64, u64>,
    /// Handles of physical memory of others.
    handles: HashSet<u64>,
    /// Where memory of others is mapped.
    others: Ranges,
    /// Memory of others that was opened by its handle: where it begins, and how often it is open.
    opened: BTreeMap<u64, u32>,
    /// A graph is made without a node.
    of_graphs: bool,
}

struct Export {
    call: u64,
    function: &'static str,
}

impl MissingProcesses {
    /// Where memory is mapped that is exported for the first time.
    fn exports(&mut self, handle: u64, call: u64) -> Vec<u64> {
        match self.exported.entry(handle) {
            Entry::Vacant(first) => {
                first.insert(call);
                self.mapped.get(&handle).into_iter().flatten().copied().collect()
            }
            // Of its mappings each has been told.
            Entry::Occupied(_) => Vec::new(),
        }
    }

    fn is_mapped(&mut self, range: Range<u64>, handle: u64) {
        self.is_unmapped(&range);
        self.mapped.entry(handle).or_default().insert(range.start);
        self.mappings.insert(range.start, handle);
        if self.handles.contains(&handle) {
            self.others.insert(range);
        }
    }

    fn is_unmapped(&mut self, range: &Range<u64>) {
        let gone: Vec<(u64, u64)> = self.mappings.range(range.clone()).map(|(at, handle)| (*at, *handle)).collect();
        for (at, handle) in gone {
            self.mappings.remove(&at);
            self.mapped.entry(handle).and_modify(|all| _ = all.remove(&at));
        }
        self.others.remove(range);
    }

    /// Whether there is memory of others.
    pub(crate) fn is_any(&self) -> bool {
        !self.opened.is_empty() || !self.others.is_empty()
    }

    /// A context has ended, and this memory with it.
    pub(crate) fn ends(&mut self, start: u64) {
        self.opened.remove(&start);
    }
}

impl Survey {
    /// Whether some of those that share something with this process are replayed without it.
    fn lacks_others(&self) -> bool {
        match &self.plan.job.single_rank {
            // It is NCCL that has others write there, and what it brought is kept.
            Some(alone) => !alone.keeps_collectives,
            None => self.lacks.processes,
        }
    }

    /// A call that hands out something for other processes to use.
    pub(crate) fn exports(&mut self, call: &Call, function: &'static Function, what: What) {
        if what == What::Event || !self.lacks_others() {
            return;
        }
        self.absent.exports.push(Export { call: call.number, function: function.name });
        let addresses = match what {
            What::Memory => exported_address(call, function).into_iter().collect(),
            _ => call.handle(Kind::Allocation).map_or_else(Vec::new, |handle| self.absent.exports(handle, call.number)),
        };
        addresses
            .into_iter()
            .for_each(|address| self.plan.comparability.reach.exported(call.number, address, &self.live));
    }

    /// What this process had exported it imports itself.
    pub(crate) fn imports_own(&mut self, export: u64) {
        self.absent.own.insert(export);
    }

    /// Memory of another process, by a call that is refused.
    pub(crate) fn is_absent(&mut self, call: &Call, function: &Function, what: What, change: Option<Change>) {
        match (what, change) {
            (What::Memory, Some(Change::Allocated { at, .. })) => {
                *self.absent.opened.entry(at).or_default() += 1;
            }
            (What::Physical, _) => {
                let made = function.creates(Kind::Allocation).and_then(|at| call.output_of(at));
                self.absent.handles.extend(made);
            }
            _ => {}
        }
    }

    /// As [`is_absent`](Survey::is_absent), with the reason.
    pub(crate) fn is_not_exported(&mut self, call: &Call, function: &Function, what: What, change: Option<Change>) {
        self.reasons.about_call(format!("{}: {NOT_EXPORTED}", function.name), call.number);
        self.is_absent(call, function, what, change);
    }

    pub(crate) fn follow_absent(&mut self, call: &Call, function: &Function, change: Option<Change>) {
        let absent = &mut self.absent;
        match change {
            // The value was another's before.
            Some(Change::Allocated { kind: Memory::Physical, at: handle, .. }) => {
                absent.mapped.remove(&handle);
                absent.exported.remove(&handle);
                if !matches!(shared_handles::crossing_of(function), Some(Crossing::Imports(_))) {
                    absent.handles.remove(&handle);
                }
            }
            Some(Change::Mapped { at, bytes, handle }) => {
                absent.is_mapped(at..at.saturating_add(bytes), handle);
                if let Some(export) = absent.exported.get(&handle) {
                    self.plan.comparability.reach.exported(*export, at, &self.live);
                }
            }
            Some(Change::Freed { at, .. }) if shared_handles::crossing_of(function) == Some(Crossing::Closes) => {
                if let Some(times) = absent.opened.get_mut(&at) {
                    *times -= 1;
                    if *times == 0 {
                        absent.opened.remove(&at);
                    }
                    if self.imports.is_some() {
                        self.refuses(call, function, USES, USES);
                    }
                }
            }
            // Of a pool by its pointer.
            Some(Change::Freed { at, .. }) if absent.opened.contains_key(&at) => {
                self.is_refused_for_absent(call, function);
                self.absent.opened.remove(&at);
            }
            Some(Change::Unmapped { at, bytes }) => {
                let range = at..at.saturating_add(bytes);
                self.is_refused_for_absent(call, function);
                self.absent.is_unmapped(&range);
            }
            _ => {}
        }
    }

    /// Whether a call cannot be made, as it uses memory of others.
    pub(crate) fn lacks_memory(&mut self, trace: &Trace, call: &Call, function: &'static Function) -> bool {
        if !self.absent.is_any() && !self.absent.of_graphs || shared_handles::crossing_of(function).is_some() {
            return false;
        }
        if self.absent.of_graphs && function.launches_graph() {
            self.reasons.about_call(format!("{}: {OF_GRAPH}", function.name), call.number);
            self.plan.comparability.may_differ.insert(call.number);
        }
        let is_launch = function.class == Class::launch || function.class == Class::graph;
        let names = is_launch && described(trace, call).any(|word| self.is_in_absent(word));
        if names {
            self.refuses(call, function, USES, USES);
            return true;
        }
        function.class != Class::query && self.is_refused_for_absent(call, function)
    }

    /// By its addresses.
    fn is_refused_for_absent(&mut self, call: &Call, function: &Function) -> bool {
        let is_address = |param: &&Field| matches!(param.ty.form, Form::Address) || matches!(param.role, Role::Address);
        let is_refused = function.params.iter().filter(is_address).any(|param| {
            let Some(address) = call.argument(param.name) else { return false };
            let to = |len: Option<u64>| address..address.saturating_add(len.unwrap_or(0));
            match (function.effect, function.class) {
                // Of several mappings some may be another's.
                (Effect::Unmap { .. } | Effect::SetAccess, _) => {
                    self.absent.others.overlaps(&to(call.argument("size")))
                }
                // What is given back or asked for is not known any more, or not yet: it need not be the other's.
                (_, Class::free | Class::allocate) => self.is_known_as_absent(address),
                _ => self.is_in_absent(address) || self.absent.others.overlaps(&to(extent(call, function, param))),
            }
        });
        if is_refused {
            self.refuses(call, function, USES, USES);
        }
        is_refused
    }

    /// `why` of a replay that leaves the call out, `reason` of its verdict.
    pub(crate) fn refuses(&mut self, call: &Call, function: &Function, why: &'static str, reason: &str) {
        self.absent.of_graphs |= function.class == Class::graph || self.is_captured();
        if self.plan.job.refusals.insert(call.number, why).is_none() {
            self.reasons.about_call(format!("{}: {reason}", function.name), call.number);
        }
    }

    fn is_known_as_absent(&self, address: u64) -> bool {
        self.absent.others.contains(address) || self.absent.opened.contains_key(&address)
    }

    fn is_in_absent(&self, word: u64) -> bool {
        let opened = || self.absent.opened.range(..=word).next_back();
        // Up to the next memory that is known.
        let is_opened = |start: u64| {
            let between = start..word.saturating_add(1);
            word - start < MOST
                && ![&self.host, &self.absent.others].iter().any(|known| known.overlaps(&between))
                && !self.live.begins_in(&between)
        };
        self.absent.others.contains(word) || opened().is_some_and(|(start, _)| is_opened(*start))
    }

    /// What others may have written of what was exported.
    pub(crate) fn exports_end(&mut self) {
        let MissingProcesses { exports, own, .. } = std::mem::take(&mut self.absent);
        for Export { call, function } in exports.iter().filter(|export| !own.contains(&export.call)) {
            self.reasons.about_call(format!("{function}: {WRITTEN_BY_OTHERS}"), *call);
            self.plan.comparability.may_differ.insert(*call);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::base::sample::Sample;
    use crate::job::ranks::MissingPeers;
    use crate::plan::{Plan, plan, plan_with_peers};
    use std::collections::HashMap;

    const AT: u64 = 0x7f00_0000_0000;
    const OTHER: u64 = AT + 0x4000_0000;
    const PIECE: u64 = 0x20_0000;

    fn opened(more: &[u64]) -> Sample {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        let words = [&[0x100], &[7; 8][..], &[1]].concat();
        sample.call(0, "cuIpcOpenMemHandle_v2", 2..3, &words, &[(0x100, &AT.to_le_bytes())]);
        for (time, at) in (4u64..).step_by(2).zip(more) {
            sample.call(0, "cuMemAlloc_v2", time..time + 1, &[0x100, 4096], &[(0x100, &at.to_le_bytes())]);
        }
        sample
    }

    fn refused(plan: &Plan) -> Vec<u64> {
        let mut calls: Vec<u64> = plan.job.refusals.keys().copied().collect();
        calls.sort_unstable();
        calls
    }

    #[test]
    fn memory_of_others_reaches_to_the_next_that_is_known() {
        let mut sample = opened(&[OTHER]);
        for (time, at) in (20u64..).step_by(2).zip([AT, AT + 0x3fff_ffff, OTHER, OTHER + 8192, AT - 1]) {
            sample.launch(0, time..time + 1, at);
        }
        assert_eq!(refused(&plan(&sample.trace())), [3, 4]);
        sample.call(0, "cuMemFree_v2", 38..39, &[OTHER], &[]);
        assert_eq!(refused(&plan(&sample.trace())), [3, 4], "its own memory is given back");
        sample.call(0, "cuIpcCloseMemHandle", 40..41, &[AT], &[]);
        sample.launch(0, 42..43, AT);
        assert_eq!(refused(&plan(&sample.trace())), [3, 4]);
        // Beside others none of which had exported it, closing it is nothing, too.
        assert_eq!(refused(&plan_with_peers(&sample.trace(), &HashMap::new(), MissingPeers::default())), [3, 4, 9]);
    }

    fn map(sample: &mut Sample, time: u64, at: u64, handle: u64) {
        sample.call(0, "cuMemMap", time..time + 1, &[at, PIECE, 0, handle, 0], &[]);
    }

    #[test]
    fn what_reaches_into_memory_of_others_is_refused() {
        let [own, theirs] = [0x11u64, 0x12];
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample.call(0, "cuMemCreate", 2..3, &[0x100, PIECE, 0x200, 0], &[(0x100, &own.to_le_bytes())]);
        let import = [0x100, 7, 1];
        sample.call(0, "cuMemImportFromShareableHandle", 4..5, &import, &[(0x100, &theirs.to_le_bytes())]);
        sample.passed(0, 1);
        map(&mut sample, 6, AT, own);
        map(&mut sample, 8, AT + PIECE, theirs);
        sample.call(0, "cuMemSetAccess", 10..11, &[AT, PIECE, 0x200, 1], &[]);
        sample.call(0, "cuMemSetAccess", 12..13, &[AT, 2 * PIECE, 0x200, 1], &[]);
        sample.call(0, "cuMemsetD8_v2", 14..15, &[AT, 0, PIECE], &[]);
        sample.call(0, "cuMemsetD8_v2", 16..17, &[AT, 0, PIECE + 1], &[]);
        let retain = |sample: &mut Sample, time: u64, at: u64, handle: u64| {
            sample.call(
                0,
                "cuMemRetainAllocationHandle",
                time..time + 1,
                &[0x100, at],
                &[(0x100, &handle.to_le_bytes())],
            );
        };
        retain(&mut sample, 18, AT, own);
        retain(&mut sample, 20, AT + PIECE, theirs);
        sample.call(0, "cuMemUnmap", 22..23, &[AT, 2 * PIECE], &[]);
        // Its own memory lies there from now on.
        map(&mut sample, 24, AT + PIECE, own);
        retain(&mut sample, 26, AT + PIECE, own);
        sample.call(0, "cuMemUnmap", 28..29, &[AT + PIECE, PIECE], &[]);
        assert_eq!(refused(&plan(&sample.trace())), [4, 6, 8, 10, 11]);
    }

    #[test]
    fn memory_of_others_ends_with_its_context() {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample.call(0, "cuCtxCreate_v2", 2..3, &[0x100, 0, 0], &[(0x100, &0xc5u64.to_le_bytes())]);
        let words = [&[0x100], &[7; 8][..], &[1]].concat();
        sample.call(0, "cuIpcOpenMemHandle_v2", 10..11, &words, &[(0x100, &AT.to_le_bytes())]);
        sample.launch(0, 20..21, AT);
        sample.call(0, "cuCtxDestroy_v2", 30..31, &[0xc5], &[]);
        sample.launch(0, 40..41, AT);
        assert_eq!(refused(&plan(&sample.trace())), [3]);
    }

    /// A trace of so many calls of this kind takes minutes where each looks at all others.
    #[test]
    fn mappings_and_exports_are_each_looked_at_once() {
        const MANY: u64 = 20_000;
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample.call(0, "cuMemCreate", 2..3, &[0x100, PIECE, 0x200, 0], &[(0x100, &0x11u64.to_le_bytes())]);
        for time in (10..).step_by(10).take(MANY as usize) {
            map(&mut sample, time, AT + time * PIECE, 0x11);
            sample.call(0, "cuMemExportToShareableHandle", time + 2..time + 3, &[0x300, 0x11, 1, 0], &[]);
            sample.passed(0, time);
        }
        let trace = sample.trace();
        let begun = std::time::Instant::now();
        assert!(plan(&trace).comparability.may_differ.len() as u64 >= MANY);
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    #[test]
    fn what_is_exported_is_told_where_somebody_is_missing() {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample.call(0, "cuMemAlloc_v2", 2..3, &[0x100, 4096], &[(0x100, &AT.to_le_bytes())]);
        sample.call(0, "cuIpcGetMemHandle", 4..5, &[0x200, AT], &[(0x200, &[7; 64])]);
        let trace = sample.trace();
        let told = |plan: &Plan| {
            plan.judgement.reasons.iter().any(|reason| reason.what.starts_with("cuIpcGetMemHandle: exported"))
        };
        for (plan, is_told) in [
            (plan(&trace), true),
            (plan_with_peers(&trace, &HashMap::new(), MissingPeers { processes: true, ranks: None }), true),
            (plan_with_peers(&trace, &HashMap::new(), MissingPeers::default()), false),
        ] {
            assert_eq!((told(&plan), plan.comparability.may_differ.contains(&2)), (is_told, is_told));
        }
    }
}
