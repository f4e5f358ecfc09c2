//! The plan of a replay, found without a driver by one walk over the trace.
//!
//! Imports `base/`, `driver/` and `job/`. `survey/` is the walk; each group of the plan's fields is a struct
//! in [`memory`], [`graphs`], [`order`], [`comparability`], or in a file here.

pub(crate) mod action;
pub(crate) mod breakpoints;
pub(crate) mod comparability;
pub(crate) mod counts;
pub(crate) mod devices;
pub(crate) mod environment;
pub(crate) mod fault;
pub(crate) mod graphs;
pub(crate) mod memory;
pub(crate) mod order;
pub(crate) mod origins;
pub(crate) mod special_calls;
pub(crate) mod survey;
pub(crate) mod verdict;

use crate::job::peers::Imports;
use crate::job::plan::JobPlan;
use crate::job::ranks::MissingPeers;
use crate::job::single_rank::{SingleRank, WAITS};
use crate::plan::comparability::Comparability;
use crate::plan::counts::CallCounts;
use crate::plan::devices::DeviceUse;
use crate::plan::environment::Environment;
use crate::plan::fault::Fault;
use crate::plan::graphs::nodes::GraphNodes;
use crate::plan::memory::addresses::AddressRanges;
use crate::plan::memory::allocations::MemoryPlan;
use crate::plan::order::partial_order::Order;
use crate::plan::special_calls::SpecialCalls;
use crate::plan::survey::walk::Survey;
use crate::plan::verdict::Judgement;
use trace::Trace;
use trace::base::hash::Hash;
use trace::base::maps;

/// The plan for the replay of a trace.
#[derive(Default)]
pub struct Plan {
    /// The verdict with its reasons and notes.
    pub judgement: Judgement,
    pub(crate) order: Order,
    pub(crate) memory: MemoryPlan,
    pub(crate) addresses: AddressRanges,
    pub(crate) graph_nodes: GraphNodes,
    /// Devices of the recording that the replay needs.
    pub devices: DeviceUse,
    pub(crate) special_calls: SpecialCalls,
    pub(crate) comparability: Comparability,
    /// Counts of calls by what the replay does with them.
    pub counts: CallCounts,
    /// The process's part in its job.
    pub job: JobPlan,
    /// The first error of work done earlier, as the program came to know it.
    pub(crate) fault: Option<Fault>,
    /// The first call whose input is not there: in a blob that the file does not have, or never recorded.
    pub missing: Option<Missing>,
    /// To be set before the driver is loaded.
    pub environment: Environment,
}

/// A call that cannot be made because a part of the file is missing; no later call can be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Number of the call.
    pub call: u64,
    /// Name of the driver function.
    pub function: &'static str,
    /// None: it was not recorded.
    pub blob: Option<Hash>,
    /// Bytes that the call needs of it.
    pub len: u64,
}

/// Of a process that is replayed by itself.
pub fn plan(trace: &Trace) -> Plan {
    let survey = match from_recorded_memory(trace) {
        Some(alone) => Survey::single_rank(trace, alone),
        None => Survey::new(trace, None),
    };
    walk(trace, survey)
}

/// Where what imported memory held is in the trace, the others are not needed. A process may use NCCL with
/// none but itself: where it has no memory of others, such launches are made.
fn from_recorded_memory(trace: &Trace) -> Option<SingleRank> {
    let mut alone = SingleRank::from_trace(trace).ok().filter(|alone| alone.keeps_memory && !trace.held.is_empty())?;
    alone.is_asked_for = false;
    Some(alone)
}

/// Of a process that is replayed beside others of its job, with what it imports.
pub fn plan_with_peers(trace: &Trace, imports: &Imports, lacks: MissingPeers) -> Plan {
    walk(trace, Survey::with_peers(trace, imports.clone(), lacks))
}

/// Of a process that is replayed without the others of its job. An error says why that cannot be.
pub fn plan_single_rank(trace: &Trace) -> Result<Plan, &'static str> {
    match SingleRank::from_trace(trace) {
        Ok(alone) => Ok(walk(trace, Survey::single_rank(trace, alone))),
        Err(_) if trace.nccl_events().next().is_none() => Ok(plan(trace)),
        Err(why) => Err(why),
    }
}

/// What [`plan()`] says of a trace, by a walk that keeps nothing for each call.
pub fn judge(trace: &Trace) -> Judgement {
    walk(trace, Survey::to_judge(trace, from_recorded_memory(trace))).judgement
}

/// The same of a process beside others of its job: see [`plan_with_peers`].
pub fn judge_with_peers(trace: &Trace, imports: &Imports, lacks: MissingPeers) -> Judgement {
    walk(trace, Survey::with_peers(trace, imports.clone(), lacks).only_verdict()).judgement
}

fn walk(trace: &Trace, mut survey: Survey) -> Plan {
    for call in trace.calls() {
        survey.observe(trace, &call);
    }
    survey.finish(trace)
}

impl Plan {
    /// Calls that a replay goes through.
    pub fn calls(&self) -> u64 {
        self.order.calls
    }

    /// Number of recorded threads that made calls.
    pub fn threads(&self) -> usize {
        self.order.lanes.len()
    }

    /// Whether a call is made that lacks something, so that memory behind it may not be what it was.
    pub fn may_differ(&self, call: u64) -> bool {
        self.comparability.may_differ.contains(&call)
    }

    /// Whether collectives are left out, as other ranks of theirs are not replayed.
    pub fn lacks_ranks(&self) -> bool {
        self.job.refusals.values().any(|why| *why == WAITS)
    }

    /// Allocations of device memory, and the bytes of addresses they took, each counted once.
    pub fn device_memory(&self) -> (usize, u64) {
        (self.memory.allocations.len(), self.addresses.device.bytes())
    }

    /// Bytes of pinned host memory.
    pub fn host_memory(&self) -> u64 {
        self.addresses.host.bytes()
    }

    /// The most bytes of device memory that the program had allocated on a recorded device at a time.
    pub fn peak(&self, device: i32) -> u64 {
        self.devices.peaks.get(&device).copied().unwrap_or(0)
    }

    /// A mapping of this process that lies where recorded memory has to go. To be asked before the driver is
    /// loaded: what was mapped when it initialised, it never gives out again. Another layout of the process
    /// (with or without address space randomisation) has other mappings.
    pub fn collides_with_own_mappings(&self) -> std::io::Result<Option<String>> {
        maps::find(|range| self.addresses.blocks.overlaps(&range) || self.addresses.pages.overlaps(&range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::addresses::BLOCK;
    use crate::base::sample::Sample;
    use crate::plan::order::partial_order::Edge;
    use crate::plan::verdict::{Reason, Verdict};
    use std::collections::{BTreeSet, HashMap};
    use std::ops::Range;
    use trace::file::preamble::Data;

    const AT: u64 = 0x7f00_1234_0000;

    fn allocate(sample: &mut Sample, thread: u32, time: Range<u64>, address: u64, len: u64) {
        sample.call(thread, "cuMemAlloc_v2", time, &[0x100, len], &[(0x100, &address.to_le_bytes())]);
    }

    fn initialised() -> Sample {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample
    }

    #[test]
    fn refused_calls_are_named() {
        let mut sample = initialised();
        sample.call(0, "cuIpcCloseMemHandle", 10..11, &[AT], &[]);
        sample.failed(0, "cuIpcCloseMemHandle", 20..21, 1, &[AT]);
        sample.call(0, "cuIpcCloseMemHandle", 30..31, &[AT], &[]);
        let plan = plan(&sample.trace());
        assert_eq!(plan.judgement.verdict, Verdict::Partly);
        let reasons: Vec<String> = plan.judgement.reasons.iter().map(Reason::to_string).collect();
        assert_eq!(reasons, ["cuIpcCloseMemHandle: shared with another process (2 calls: 1, 3)"]);
    }

    #[test]
    fn the_verdict_alone_is_the_plans() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden");
        let paths = std::fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().path());
        let traces: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end == "bin")).collect();
        assert!(traces.len() > 4, "{traces:?}");
        for path in traces {
            let trace = trace::Trace::open(&path).unwrap();
            assert_eq!(judge(&trace), plan(&trace).judgement, "{path:?}");
        }
    }

    #[test]
    fn a_profile_is_not_replayable() {
        let mut sample = initialised();
        assert_eq!(plan(&sample.trace()).judgement.verdict, Verdict::Replayable);
        sample.data = Data::None;
        assert_eq!(plan(&sample.trace()).judgement.verdict, Verdict::No);
        assert_eq!(plan(&Sample::new().trace()).judgement.verdict, Verdict::No);
    }

    #[test]
    fn whole_blocks_around_all_addresses() {
        let mut sample = initialised();
        allocate(&mut sample, 0, 10..11, AT, 512);
        allocate(&mut sample, 0, 20..21, AT + 512, 512);
        allocate(&mut sample, 0, 30..31, AT + BLOCK, 100);
        sample.call(0, "cuMemAllocHost_v2", 40..41, &[0x100, 5000], &[(0x100, &0x55_0000_1000u64.to_le_bytes())]);
        let plan = plan(&sample.trace());
        let start = AT / BLOCK * BLOCK;
        assert!(plan.addresses.blocks.iter().eq(std::iter::once(start..start + 2 * BLOCK)));
        assert!(plan.addresses.pages.iter().eq(std::iter::once(0x55_0000_1000..0x55_0000_3000)));
        assert_eq!(plan.peak(0), 1124);
        assert_eq!((plan.device_memory(), plan.host_memory()), ((3, 1124), 5000));
    }

    #[test]
    fn memory_follows_the_context_to_its_device() {
        let mut sample = initialised();
        sample.call(0, "cuDevicePrimaryCtxRetain", 2..3, &[0x100, 1], &[(0x100, &0xc0u64.to_le_bytes())]);
        sample.call(0, "cuCtxSetCurrent", 4..5, &[0xc0], &[]);
        allocate(&mut sample, 0, 10..11, AT, 512);
        let plan = plan(&sample.trace());
        assert_eq!(plan.devices.used, BTreeSet::from([1]));
        assert_eq!((plan.peak(0), plan.peak(1)), (0, 512));
    }

    #[test]
    fn memory_within_what_another_thread_gives_back_waits_for_that() {
        let mut sample = initialised();
        let alloc = |sample: &mut Sample, thread, time: Range<u64>, at: u64, len| {
            sample.call(thread, "cuMemHostAlloc", time, &[0x100, len, 0], &[(0x100, &at.to_le_bytes())]);
        };
        alloc(&mut sample, 0, 2..3, AT, 0x10000);
        // Both were inside when the other gave it back, and one of them got the same start.
        alloc(&mut sample, 1, 10..30, AT, 0x1000);
        alloc(&mut sample, 2, 11..31, AT + 0x2000, 0x1000);
        sample.call(0, "cuMemFreeHost", 20..21, &[AT], &[]);
        let (trace, all) = (sample.trace(), |trace: &trace::Trace, name: &str| {
            let found = trace.calls().filter(|call| call.name() == name).map(|call| call.number);
            found.collect::<Vec<u64>>()
        });
        let plan = plan(&trace);
        let mut waiting: Vec<u64> = plan.order.edges.keys().copied().collect();
        waiting.sort_unstable();
        assert_eq!(waiting, all(&trace, "cuMemHostAlloc")[1..]);
    }

    #[test]
    fn a_creation_waits_for_the_destroy_of_its_value() {
        let mut sample = initialised();
        let event = (0x100, &0xe0u64.to_le_bytes()[..]);
        sample.call(0, "cuEventCreate", 10..20, &[0x100, 0], &[event]);
        // The destroy is still inside when the other thread gets the same value.
        sample.call(0, "cuEventDestroy_v2", 30..60, &[0xe0], &[]);
        sample.call(1, "cuEventCreate", 25..50, &[0x100, 0], &[event]);
        let trace = sample.trace();
        let plan = plan(&trace);
        let number = |name, thread| trace.calls().find(|c| c.name() == name && c.thread == thread).unwrap().number;
        let destroy = number("cuEventDestroy_v2", 0);
        let steps = plan.order.lanes.iter().flat_map(|lane| &lane.steps);
        let rank = steps.clone().find(|step| step.call == destroy).unwrap().rank;
        assert_eq!(plan.order.edges, HashMap::from([(number("cuEventCreate", 1), vec![Edge { call: destroy, rank }])]));
    }

    #[test]
    fn launches_without_a_check_are_counted() {
        let mut sample = initialised();
        allocate(&mut sample, 0, 10..11, AT, 512);
        allocate(&mut sample, 0, 12..13, AT + 512, 512);
        sample.launch(0, 20..21, AT);
        sample.launch(0, 22..23, AT + 512);
        sample.copy_out(0, 30..31, AT, 100);
        sample.launch(0, 40..41, AT);
        let trace = sample.trace();
        let plan = plan(&trace);
        // Nobody in this trace looked the launched function up.
        assert_eq!(plan.judgement.verdict, Verdict::Partly);
        let [reason] = &plan.judgement.reasons[..] else { panic!("{:?}", plan.judgement.reasons) };
        assert!(
            reason
                .to_string()
                .starts_with("cuLaunchKernel: needs a function that no call in the trace created (3 calls")
        );
        assert_eq!((plan.counts.launches, plan.counts.unreached_launches), (3, 2));
        let copy = trace.calls().find(|call| call.name() == "cuMemcpyDtoH_v2").unwrap().number;
        assert_eq!(plan.comparability.reach.writers(copy), [3]);
    }

    #[test]
    fn what_kernels_draw_reaches_copies_of_the_array() {
        const ARRAY: u64 = 0x55f0_1234_5678;
        const SURFACE: u64 = 3;
        let mut sample = initialised();
        let handle = |value: u64| value.to_le_bytes();
        sample.call(0, "cuArrayCreate_v2", 10..11, &[0x100, 0x200], &[(0x100, &handle(ARRAY))]);
        let description = [&[0; 8][..], &handle(ARRAY)].concat();
        let made = [(0x300, &description[..]), (0x100, &handle(SURFACE)[..])];
        sample.call(0, "cuSurfObjectCreate", 12..13, &[0x100, 0x300], &made);
        sample.launch(0, 20..21, SURFACE);
        sample.launch(0, 22..23, SURFACE + 1);
        sample.call(0, "cuMemcpyAtoH_v2", 30..31, &[0x6000, ARRAY, 0, 16], &[(0x6000, &[7; 16])]);
        let plan = plan(&sample.trace());
        assert_eq!((plan.counts.launches, plan.counts.unreached_launches), (2, 1));
    }

    #[test]
    fn a_free_under_way_does_not_take_the_next_allocation() {
        let mut sample = initialised();
        allocate(&mut sample, 0, 10..11, AT, 512);
        sample.call(0, "cuMemFree_v2", 20..40, &[AT], &[]);
        allocate(&mut sample, 1, 15..30, AT, 512);
        sample.copy_out(1, 50..51, AT, 100);
        allocate(&mut sample, 1, 60..61, AT + BLOCK, 512);
        let plan = plan(&sample.trace());
        assert_eq!((plan.judgement.reasons, plan.devices.peaks), (vec![], HashMap::from([(0, 1024)])));
    }

    #[test]
    fn overlapping_submissions_to_one_stream() {
        let mut sample = initialised();
        allocate(&mut sample, 0, 2..3, AT, 512);
        sample.launch(0, 10..20, AT);
        sample.launch(1, 15..25, AT);
        sample.launch(0, 30..40, AT);
        assert_eq!(plan(&sample.trace()).counts.overlapping_submissions, 1);
    }

    #[test]
    fn pinned_memory_with_two_addresses_is_named() {
        let mut sample = initialised();
        for (time, device) in [(10, AT), (20, AT + 0x1000)] {
            let given = (0x100, &device.to_le_bytes()[..]);
            sample.call(0, "cuMemHostGetDevicePointer_v2", time..time + 1, &[0x100, AT, 0], &[given]);
        }
        let reasons: Vec<String> = plan(&sample.trace()).judgement.reasons.iter().map(Reason::to_string).collect();
        let [reason] = &reasons[..] else { panic!("{reasons:?}") };
        assert!(
            reason.starts_with("device and CPU use different addresses for pinned host memory")
                && reason.ends_with("(1 call: 2)")
        );
    }

    #[test]
    fn only_variables_that_change_what_is_computed_are_set_again() {
        let mut trace = initialised().trace();
        assert_eq!(Environment::from_trace(&trace).set, [("CUDA_MODULE_LOADING".to_owned(), "EAGER".to_owned())]);
        trace.preamble.environment = [
            ("CUDA_LAUNCH_BLOCKING", "1"),
            ("CUDA_DEVICE_DEFAULT_STACK_SIZE_MAX", "2048"),
            ("CUDA_FORCE_PRELOAD_LIBRARIES", "1"),
            ("CUDA_DEVICE_DEFAULT_PERSISTING_L2_CACHE_PERCENTAGE_LIMIT", "25"),
            ("CUDA_BINARY_LOADER_THREAD_COUNT", "1000000000"),
            ("CUDA_DEVICE_ORDER", "PCI_BUS_ID\0"),
            ("CUDA_LAUNCH_BLOCKING=", "1"),
            ("CUDA_LOG_FILE", "/etc/passwd"),
            ("CUDA_INJECTION64_PATH", "/tmp/tool.so"),
            ("LD_PRELOAD", "/tmp/tool.so"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
        let environment = Environment::from_trace(&trace);
        let set = [
            ("CUDA_LAUNCH_BLOCKING", "1"),
            ("CUDA_DEVICE_DEFAULT_STACK_SIZE_MAX", "2048"),
            ("CUDA_FORCE_PRELOAD_LIBRARIES", "1"),
        ];
        assert_eq!(environment.set, set.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let left_out = [
            "CUDA_DEVICE_DEFAULT_PERSISTING_L2_CACHE_PERCENTAGE_LIMIT",
            "CUDA_BINARY_LOADER_THREAD_COUNT",
            "CUDA_DEVICE_ORDER",
            "CUDA_LAUNCH_BLOCKING=",
            "CUDA_LOG_FILE",
            "CUDA_INJECTION64_PATH",
        ];
        assert_eq!(environment.left_out, left_out);
    }

    #[test]
    fn own_mappings_are_found() {
        let mut sample = initialised();
        allocate(&mut sample, 0, 10..11, 0x6000_0000_0000, 512);
        assert_eq!(plan(&sample.trace()).collides_with_own_mappings().unwrap(), None);
        let here = std::ptr::from_ref(&sample) as u64;
        allocate(&mut sample, 0, 20..21, here, 16);
        assert!(plan(&sample.trace()).collides_with_own_mappings().unwrap().is_some());
    }
}
