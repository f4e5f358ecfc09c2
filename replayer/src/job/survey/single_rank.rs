//! Substitutes for other processes in a single-rank replay.

use crate::job::ranks::is_one_of_several;
use crate::job::single_rank::{
    REFUSED, SingleRank, StandIn, TOUCHES, UNHELD, WAITS, first_memory_of, launches_nccl, names,
};
use crate::plan::survey::walk::Survey;
use std::ops::Range;
use trace::api::effect::Memory;
use trace::api::roles::Class;
use trace::api::types::Kind;
use trace::model::change::Change;
use trace::read::shared_handles as across;
use trace::read::shared_handles::{Crossing, What};
use trace::{Call, Function, Trace};

const CHANGED: &str = "memory of another process changed during this launch: if the kernel waits for that change, the replay may \
                       hang";

const BY_WHAT_IS_KEPT: &str = "replay --alone writes its recorded result instead";
const TOGETHER: &str = "replay the job's directory to include all ranks";
const THEIR_TRACES: &str = "their traces are not part of this replay";

const OF_OTHERS: &str = "skipped or emulated, as it concerns other processes";

impl Survey {
    /// Of a process that is replayed without the others of its job.
    pub(crate) fn single_rank(trace: &Trace, alone: SingleRank) -> Survey {
        let mut survey = Survey::new(trace, None);
        survey.plan.job.single_rank = Some(alone);
        survey
    }

    pub(crate) fn is_single_rank(&self) -> bool {
        self.plan.job.single_rank.is_some()
    }

    /// A call about what is shared with other processes.
    pub(crate) fn is_about_peers(&mut self, call: &Call, function: &'static Function, change: Option<Change>) -> bool {
        let Some(crossing) = across::crossing_of(function).filter(|_| self.is_single_rank()) else { return false };
        self.notes.about_call(format!("{}: {OF_OTHERS}", function.name), call.number);
        match (crossing, change) {
            (Crossing::Imports(What::Memory), Some(Change::Allocated { .. })) => self.opens(call, function, change),
            (Crossing::Closes, Some(Change::Freed { kind, at, .. })) => {
                let Some(alone) = &mut self.plan.job.single_rank else { return true };
                if let Some(range) = self.live.range_around(at).filter(|range| alone.foreign.contains(range.start)) {
                    alone.closing.insert(call.number, range.start);
                    match alone.opened.get_mut(&range.start) {
                        Some(times @ 2..) => *times -= 1,
                        _ => {
                            self.freed(call, kind, range.start);
                        }
                    }
                }
            }
            (Crossing::Exports(what), _) => self.exports(call, function, what),
            _ => {}
        }
        true
    }

    /// Memory of another process: how far it goes is told where it is kept.
    fn opens(&mut self, call: &Call, function: &Function, change: Option<Change>) {
        let (Some(alone), Some(Change::Allocated { at: address, .. })) = (&mut self.plan.job.single_rank, change)
        else {
            return;
        };
        match alone.place(call, address) {
            Some(range) => {
                alone.foreign.insert(range.clone());
                let times = alone.opened.entry(range.start).or_default();
                *times += 1;
                match *times {
                    1 => self.opened(call, range),
                    _ => self.plans_opened(call, range),
                }
            }
            None => {
                self.foreign = true;
                if alone.keeps_memory {
                    self.reasons.about_call(format!("{}: {UNHELD}", function.name), call.number);
                }
                self.is_absent(call, function, What::Memory, change);
            }
        }
    }

    /// What is at these addresses is no memory of others, or none any more.
    pub(crate) fn forget_peer_memory(&mut self, range: &Range<u64>) {
        if let Some(alone) = self.plan.job.single_rank.as_mut().filter(|alone| alone.foreign.overlaps(range)) {
            alone.foreign.remove(range);
            alone.opened.retain(|start, _| !range.contains(start));
            alone.begins_anew(range);
        }
    }

    /// Memory that begins here is given up, by a call that was entered at `at`.
    pub(crate) fn free_peer_memory(&mut self, start: u64, at: u64) {
        let is_of_others = self.plan.job.single_rank.as_ref().is_some_and(|alone| alone.foreign.contains(start));
        if let Some(len) = self.live.freed_bytes(start, at).filter(|_| is_of_others) {
            self.forget_peer_memory(&(start..start.saturating_add(len)));
        }
    }

    /// What is kept of memory of others that this call was about to use.
    pub(crate) fn uses(&mut self, call: &Call, function: &Function) {
        let Some(alone) = self.plan.job.single_rank.as_mut().filter(|alone| alone.keeps_memory) else { return };
        let (held, has_changed) = alone.used_by(call);
        let Some(first) = held.first() else { return };
        if function.class == Class::launch {
            alone.given.insert(call.number, first.at.clone());
        }
        for why in held.iter().map(|held| &held.lost).filter(|why| !why.is_empty()) {
            self.reasons.about_call(format!("{}: {UNHELD}: {why}", function.name), call.number);
            self.plan.comparability.may_differ.insert(call.number);
        }
        alone.held.insert(call.number, held);
        if has_changed && function.class == Class::launch {
            let of = call.named_kernel().map_or_else(String::new, |kernel| format!(" of {}", kernel.name));
            self.notes.about_call(format!("{}{of}: {CHANGED}", function.name), call.number);
        }
    }

    /// Whether a collective's launch cannot be made, as others of its ranks are not here.
    pub(crate) fn lacks_ranks(&mut self, trace: &Trace, call: &Call, function: &Function) -> bool {
        if self.is_single_rank() || function.class != Class::launch || !launches_nccl(call) {
            return false;
        }
        // Where NCCL has not told, ranks meet by what they share.
        let shares = || self.absent.is_any() || trace.shares_host_memory();
        let is_likely = || self.lacks.processes && is_one_of_several(trace).unwrap_or_else(shares);
        if !self.lacks.ranks.unwrap_or_else(is_likely) {
            return false;
        }
        let how = match (trace.keeps_collectives(), &self.imports) {
            (true, _) => BY_WHAT_IS_KEPT,
            (false, None) => TOGETHER,
            (false, Some(_)) => THEIR_TRACES,
        };
        self.refuses(call, function, WAITS, &format!("{WAITS}: {how}"));
        true
    }

    /// Physical memory that another process has: how much of it is used its mappings tell.
    pub(crate) fn stands_in(&mut self, call: &Call, function: &Function) {
        let made = function.creates(Kind::Allocation).and_then(|at| call.output_of(at));
        if let (Some(alone), Some(handle)) = (&mut self.plan.job.single_rank, made) {
            let device = self.work.streams.contexts.device_of_allocation(call);
            alone.stand_ins.insert(call.number, StandIn { bytes: 0, device });
            self.imported.insert(handle, call.number);
            self.notes.about_call(format!("{}: {OF_OTHERS}", function.name), call.number);
        }
    }

    pub(crate) fn maps_stand_in(&mut self, call: &Call, change: Option<Change>) {
        let Some(alone) = &mut self.plan.job.single_rank else { return };
        match change {
            Some(Change::Unmapped { at, bytes }) => alone.begins_anew(&(at..at.saturating_add(bytes))),
            Some(Change::Mapped { at, bytes, handle }) => match self.imported.get(&handle) {
                Some(import) => {
                    let end = call.argument("offset").unwrap_or(0).saturating_add(bytes);
                    alone.stand_ins.entry(*import).and_modify(|one| one.bytes = end.max(one.bytes));
                    alone.foreign.insert(at..at.saturating_add(bytes));
                }
                None => alone.foreign.remove(&(at..at.saturating_add(bytes))),
            },
            // The value may be another's from now on.
            Some(Change::Allocated { kind: Memory::Physical, at: handle, .. }) => {
                self.imported.retain(|of, import| *of != handle || *import == call.number);
            }
            _ => {}
        }
    }

    /// Whether what a collective delivered takes the place of this call: then nothing else is to be known of
    /// it.
    pub(crate) fn is_delivered(&mut self, call: &Call, function: &'static Function) -> bool {
        let is_captured = self.is_captured();
        let Some(alone) = &mut self.plan.job.single_rank else { return false };
        if let Some(captured) = alone.captured.get(&call.number).filter(|_| is_captured) {
            let bringing = captured.iter().filter(|one| !one.at.is_empty());
            self.captured.holds(bringing.map(|one| one.operation));
            let at = captured.iter().map(|one| one.at.start);
            self.target.iter().for_each(|target| {
                self.plan.comparability.reach.captured(call, function, *target, at.clone(), &self.live)
            });
            return true;
        }
        if let Some(deliveries) = alone.launches.get(&call.number).filter(|_| !is_captured) {
            for why in deliveries.iter().map(|delivery| &delivery.lost).filter(|why| !why.is_empty()) {
                self.reasons.about_call(format!("{}: {REFUSED}: {why}", function.name), call.number);
            }
            let at = deliveries.iter().map(|delivery| delivery.at.start);
            self.plan.comparability.reach.delivered(call.number, at, &self.live);
            return true;
        }
        // One that others take part in would wait for them.
        let has_others = alone.is_asked_for || alone.keeps_collectives || !alone.foreign.is_empty();
        if has_others && function.class == Class::launch && launches_nccl(call) {
            let lost = alone.launches.get(&call.number).into_iter().flatten().find(|one| !one.lost.is_empty());
            let why = match lost {
                Some(one) => format!(": {}", one.lost),
                None if is_captured => ": it was captured into a graph".into(),
                None => String::new(),
            };
            self.reasons.about_call(format!("{}: {REFUSED}{why}", function.name), call.number);
            alone.refused.insert(call.number);
            alone.launches.remove(&call.number);
            self.captured.lacks_if(is_captured);
        } else if matches!(function.class, Class::launch | Class::copy | Class::submit)
            && !alone.foreign.is_empty()
            // What is captured uses it when the graph runs.
            && !(alone.keeps_memory && (is_captured || alone.held.contains_key(&call.number)))
            && (names(call, &alone.foreign) || alone.keeps_memory && function.launches_graph())
        {
            if let Some(given) = first_memory_of(call, &alone.foreign).filter(|_| function.class == Class::launch) {
                alone.given.insert(call.number, given);
            }
            self.reasons.about_call(format!("{}: {TOUCHES}", function.name), call.number);
            self.plan.comparability.may_differ.insert(call.number);
        }
        false
    }

    pub(crate) fn end_single_rank(&mut self) {
        if let Some(alone) = self.plan.job.single_rank.as_ref().filter(|alone| alone.untold > 0) {
            let what = "NCCL operations without recorded results: the process was killed";
            self.reasons.about_trace(what, alone.untold);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::base::sample::Sample;
    use crate::plan::{Plan, plan, plan_single_rank};
    use std::ops::Range;
    use trace::Trace;
    use trace::file::record::imported_memory::ImportedMemory;

    const AT: u64 = 0x7f00_0000_0000;

    fn initialised() -> Sample {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample
    }

    fn open(sample: &mut Sample, time: Range<u64>) {
        let words = [0x100, 1, 0, 0, 0, 0, 0, 0, 0, 1];
        sample.call(0, "cuIpcOpenMemHandle_v2", time, &words, &[(0x100, &AT.to_le_bytes())]);
    }

    /// As `record --shared-memory` makes it: these calls of the first thread have opened memory of others.
    fn kept(sample: &Sample, opened: &[u32]) -> Trace {
        let mut trace = sample.trace();
        trace.preamble.more.push((trace::read::shared_handles::KEPT.into(), String::new()));
        let held =
            |call: &u32| ImportedMemory { call: (0, *call), address: AT, len: 0x1000, ..ImportedMemory::default() };
        trace.held = opened.iter().map(held).collect();
        trace
    }

    fn foreign(sample: &Sample) -> Vec<(u64, u64)> {
        let alone = plan(&kept(sample, &[2])).job.single_rank.expect("kept");
        alone.foreign.iter().map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn memory_that_was_freed_or_whose_context_has_ended_is_nobody_elses() {
        let context = |sample: &mut Sample| {
            sample.call(0, "cuCtxCreate_v2", 2..3, &[0x100, 0, 0], &[(0x100, &0xc5u64.to_le_bytes())]);
        };
        let mut sample = initialised();
        context(&mut sample);
        sample.call(0, "cuMemPoolImportPointer", 10..11, &[0x100, 0x90, 0x200], &[(0x100, &AT.to_le_bytes())]);
        assert_eq!(foreign(&sample), [(AT, AT + 0x1000)]);
        sample.call(0, "cuMemFreeAsync", 20..21, &[AT, 0], &[]);
        assert_eq!(foreign(&sample), []);
        let mut sample = initialised();
        context(&mut sample);
        open(&mut sample, 10..11);
        assert_eq!(foreign(&sample), [(AT, AT + 0x1000)]);
        sample.call(0, "cuCtxDestroy_v2", 20..21, &[0xc5], &[]);
        assert_eq!(foreign(&sample), []);
    }

    #[test]
    fn where_ordinary_memory_is_made_that_of_others_is_gone() {
        let mut sample = initialised();
        open(&mut sample, 10..11);
        sample.call(0, "cuMemAlloc_v2", 20..21, &[0x100, 0x800], &[(0x100, &AT.to_le_bytes())]);
        let alone = plan(&kept(&sample, &[1])).job.single_rank.expect("kept");
        let foreign: Vec<_> = alone.foreign.iter().map(|range| (range.start, range.end)).collect();
        assert_eq!(foreign, [(AT + 0x800, AT + 0x1000)]);
    }

    fn reasons(plan: &Plan) -> String {
        plan.judgement.reasons.iter().map(|reason| format!("{reason}\n")).collect()
    }

    #[test]
    fn nccl_within_one_process_is_launched() {
        let mut sample = initialised();
        sample.launch(0, 10..11, 0);
        let kept = |sample: &Sample, opened: &[u32]| {
            let mut trace = kept(sample, opened);
            trace.kernels.get_mut(&1).expect("the kernel").name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL".into();
            trace
        };
        const REFUSED: &str = "cuLaunchKernel: the result of this collective is not in the trace";
        let trace = kept(&sample, &[]);
        assert!(plan(&trace).job.single_rank.is_none());
        assert!(!reasons(&plan(&trace)).contains(REFUSED));
        assert!(reasons(&plan_single_rank(&trace).expect("kept")).contains(REFUSED));
        // Memory of others is opened behind the first launch.
        open(&mut sample, 20..21);
        sample.launch(0, 30..31, 0);
        let reasons = reasons(&plan(&kept(&sample, &[2])));
        assert!(reasons.contains(&format!("{REFUSED} (1 call: 3)")), "{reasons}");
    }

    #[test]
    fn memory_that_is_open_twice_is_closed_twice() {
        let mut sample = initialised();
        open(&mut sample, 10..11);
        open(&mut sample, 12..13);
        sample.call(0, "cuIpcCloseMemHandle", 20..21, &[AT], &[]);
        let once = plan(&kept(&sample, &[1, 2])).job.single_rank.expect("kept");
        assert!(once.foreign.contains(AT));
        sample.call(0, "cuIpcCloseMemHandle", 30..31, &[AT], &[]);
        let plan = plan(&kept(&sample, &[1, 2]));
        assert_eq!((plan.memory.allocations.len(), reasons(&plan)), (2, String::new()));
        let both = plan.job.single_rank.expect("kept");
        assert!(both.foreign.is_empty());
        assert_eq!([3, 4].map(|call| both.closing[&call]), [AT; 2]);
    }
}
