//! The effects of calls on memory: allocations, frees, reservations, module variables, memory of unknown
//! origin.

use crate::base::addresses::GRANULE;
use crate::base::ranges::widen;
use crate::plan::memory::allocations::Allocation as Planned;
use crate::plan::survey::walk::{Survey, extent};
use trace::api::effect::{Effect, Memory as Kind};
use trace::api::enums::{CUmemAllocationType, CUmemLocationType};
use trace::api::roles::{Class, Field, Role};
use trace::api::types::{Form, Kind as Handle, Typed};
use trace::model::change::{Change, Moment};
use trace::model::driver_addresses::block_of;
use trace::model::memory::Allocation;
use trace::model::nested_structs::structs;
use trace::model::stream::StreamId;
use trace::read::call::When;
use trace::{Call, Function, Trace};

const ADOPTED: &str = "writes memory that no recorded call allocated (a lost call, or a call through the driver's own tables, \
                       as nvJPEG's); its earlier contents are assumed to be zero";

const ELSEWHERE: &str =
    "device and CPU use different addresses for pinned host memory: CPU writes there may not be recorded";

const OF_CPU: [CUmemLocationType; 3] = [
    CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST,
    CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA,
    CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT,
];

const OF_HOST: &str = "host or managed memory not allocated by cuMemAllocManaged: CPU writes there are not recorded";

impl Survey {
    /// Pools and pieces of memory that the CPU writes like its own.
    pub(crate) fn of_host(&mut self, call: &Call, function: &'static Function) {
        let says_type = |param: &Field| param.ty.name == CUmemAllocationType::TYPE.name;
        let is_physical = matches!(function.effect, Effect::Allocate { kind: Kind::Physical, .. });
        let is_pool = function.creates(Handle::MemoryPool).is_some() || function.params.iter().any(says_type);
        if !is_physical && !is_pool {
            return;
        }
        let mut is_hosts = call.argument("type") == Some(CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED.0.into());
        structs(call, function, &mut |ty, bytes| {
            let first = bytes.first_chunk::<4>().map(|word| u32::from_le_bytes(*word));
            is_hosts |= match ty.name {
                "CUmemLocation" => first.is_some_and(|kind| OF_CPU.iter().any(|of_cpu| of_cpu.0 == kind)),
                "CUmemPoolProps" | "CUmemAllocationProp" => {
                    first == Some(CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED.0)
                }
                _ => false,
            };
        });
        if is_hosts {
            self.reasons.about_call(format!("{}: {OF_HOST}", function.name), call.number);
        }
    }

    /// Memory that no recorded call made, as libraries have it of the driver's own tables: the first that is
    /// seen of it is a fill or a copy into it. How far it goes nobody tells; the driver gives out such memory
    /// in whole granules.
    pub(crate) fn adopt(&mut self, call: &Call, function: &Function) {
        if self.foreign || self.is_captured() || !matches!(function.class, Class::copy | Class::submit) {
            return;
        }
        for param in function.params.iter().filter(|param| matches!(param.role, Role::Writes(_))) {
            let address = call.argument(param.name).filter(|address| *address != 0 && !self.is_known(*address));
            let Some((address, len)) = address.zip(extent(call, function, param).filter(|len| *len > 0)) else {
                continue;
            };
            if call.images().any(|image| image.address == address) {
                continue;
            }
            let exact = address..address.saturating_add(len);
            let wide = widen(exact.clone(), GRANULE);
            let range = if self.live.overlaps(&wide) { exact } else { wide };
            let len = range.end - range.start;
            let device = self.work.streams.contexts.device_of_allocation(call);
            self.live.add(range.start, len, 0);
            self.work.streams.memory.adopt(Moment::from_call(call), range.clone(), device);
            self.peak(device);
            self.plan.devices.used.insert(device);
            let allocation = Planned { call: call.number, range, device };
            self.plan.memory.adopted.entry(call.number).or_default().push(allocation);
            self.reasons.about_call(ADOPTED, call.number);
        }
    }

    /// Whether a replay knows where this is.
    pub(crate) fn is_known(&self, address: u64) -> bool {
        self.live.holds(address) || self.blocks.contains(&block_of(address))
    }

    /// Memory that a replay gives and takes by means of its own.
    pub(crate) fn memory(&mut self, trace: &Trace, call: &Call, change: Change, made: Option<Allocation>) {
        match (change, made) {
            (_, Some(made)) => self.allocated(trace, call, &made),
            (Change::Allocated { at, bytes, .. }, None) => {
                let len = bytes.unwrap_or(0);
                self.plan.graph_nodes.allocations.insert(call.number, len);
                self.of_graph(at, len);
            }
            (Change::Freed { kind, at, .. }, _) => self.freed(call, kind, at),
            _ => {}
        }
    }

    fn allocated(&mut self, trace: &Trace, call: &Call, made: &Allocation) {
        let (range, moment) = (made.range(), Moment::from_call(call));
        self.forget_peer_memory(&range);
        self.live.add(range.start, range.end - range.start, moment.end);
        if !self.only_judges {
            self.lifetimes.takes(range.clone(), moment);
        }
        match made.device {
            Some(device) => self.of_device(trace, call, made.kind, Planned { call: call.number, range, device }),
            None if made.kind.is_host() => self.host.insert(range),
            None => self.reserved.push(range),
        }
    }

    fn of_device(&mut self, trace: &Trace, call: &Call, kind: Kind, planned: Planned) {
        let (start, range) = (planned.range.start, &planned.range);
        self.of_graphs.remove(&start);
        self.plan.devices.used.insert(planned.device);
        if kind == Kind::Managed {
            self.managed.insert(range.clone());
            if !trace.follows_host_memory() {
                let what = "managed memory: CPU writes there are not recorded";
                self.reasons.about_call(what, call.number);
            }
        }
        if self.only_judges {
            return;
        }
        let moment = Moment::from_call(call);
        self.handovers.allocated(start, range.end - start, self.own_stream(call), moment.call, moment.end);
        self.plan.memory.allocations.insert(call.number, planned);
    }

    pub(crate) fn freed(&mut self, call: &Call, kind: Kind, start: u64) {
        let begin = call.begin;
        self.free_peer_memory(start, begin);
        if self.only_judges {
            if !(matches!(kind, Kind::Device | Kind::Pooled) && self.of_graphs.contains(&start)) {
                self.live.remove(start, begin);
            }
            return;
        }
        if let Some(len) = self.live.freed_bytes(start, begin) {
            self.lifetimes.frees(start..start.saturating_add(len), Moment::from_call(call));
        }
        if matches!(kind, Kind::Device | Kind::Pooled) {
            if self.of_graphs.contains(&start) {
                return;
            }
            if let Some(stream) = self.own_stream(call) {
                self.handovers.freed(start, stream, call.number, begin);
            }
        }
        self.live.remove(start, begin);
    }

    /// The stream in whose order memory comes or goes.
    fn own_stream(&self, call: &Call) -> Option<StreamId> {
        call.stream()?;
        Some(self.target?.stream)
    }

    fn of_graph(&mut self, start: u64, len: u64) {
        self.live.add(start, len, 0);
        self.tagged.moves(start, len);
        self.of_graphs.insert(start);
    }

    /// Memory that comes into being beside the allocations: variables of modules, memory of graphs.
    pub(crate) fn variables(&mut self, trace: &Trace, call: &Call, function: &Function) {
        /// Where the length was not asked for.
        const SOME: u64 = 64 << 10;
        let module = self.plan.comparability.reach.make_code(call, function, &mut self.live);
        self.plan.comparability.reach.makes_image(trace, call, function, &mut self.live);
        if let Some([at, bytes]) = function.variable()
            && let Some((start, module)) = call.output_of(at).zip(module)
        {
            let len = call.output_of(bytes).unwrap_or(SOME);
            self.live.add_as(module, start, len, 0);
            self.tagged.moves(start, len);
            self.blocks.insert(block_of(start));
        }
        for param in function.params {
            let Form::Pointer(to) = param.ty.form else { continue };
            let Form::Struct(fields) = to.form else { continue };
            let recorded = |fields: &'static [Field]| {
                let made = fields.iter().any(|field| matches!(field.role, Role::Allocated(_)));
                made.then(|| call.memory(When::Return, call.argument(param.name)?, to.size.into())).flatten()
            };
            if let Some((start, len)) =
                recorded(fields).and_then(|bytes| trace::read::recorded_memory::made_in(fields, &bytes))
            {
                self.of_graph(start, len);
            }
        }
    }

    /// Pinned memory is known by one address. Where devices cannot use the CPU's they are given another,
    /// which nobody follows.
    pub(crate) fn mapped(&mut self, call: &Call, function: &Function) {
        let hands_out = |param: &Field| matches!((param.role, param.ty.form), (Role::Out(_), Form::Pointer(to)) if matches!(to.form, Form::Address));
        let [device, host, ..] = function.params else { return };
        if !hands_out(device) || !matches!(host.role, Role::HostAddress) {
            return;
        }
        if call.output_of(0).zip(call.argument_of(1)).is_some_and(|(device, host)| device != host) {
            self.reasons.about_call(ELSEWHERE, call.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::base::sample::Sample;
    use crate::plan::plan;

    const AT: [u64; 3] = [0x7f00_0000_0000, 0x7f10_0000_0000, 0x7f20_0000_0000];

    fn memory_in_a_green_context() -> Sample {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample.call(0, "cuDevicePrimaryCtxRetain", 2..3, &[0x100, 0], &[(0x100, &0xc0u64.to_le_bytes())]);
        sample.call(0, "cuGreenCtxCreate", 4..5, &[0x100, 0x77, 0, 1], &[(0x100, &0xc5u64.to_le_bytes())]);
        sample.call(0, "cuCtxSetCurrent", 6..7, &[0xc5], &[]);
        sample.call(0, "cuMemAlloc_v2", 8..9, &[0x100, 10], &[(0x100, &AT[0].to_le_bytes())]);
        sample
    }

    #[test]
    fn memory_made_in_a_green_context_ends_with_the_primary_one() {
        let mut sample = memory_in_a_green_context();
        sample.call(0, "cuCtxSetCurrent", 10..11, &[0xc0], &[]);
        // The green one retains it.
        sample.call(0, "cuDevicePrimaryCtxRelease", 12..13, &[0], &[]);
        assert!(plan(&sample.trace()).memory.context_ends.is_empty());
        sample.call(0, "cuGreenCtxDestroy", 14..15, &[0xc5], &[]);
        let plan = plan(&sample.trace());
        let ends: Vec<_> =
            plan.memory.context_ends.iter().map(|(call, end)| (*call, &end.contexts[..], &end.memory[..])).collect();
        assert_eq!(ends, [(7, &[0xc5, 0xc0][..], &AT[..1])]);
    }

    #[test]
    fn memory_of_green_contexts_ends_with_a_primary_one_that_nobody_knows() {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        for (at, green) in [(2, 0xc5u64), (4, 0xc6)] {
            sample.call(0, "cuGreenCtxCreate", at..at + 1, &[0x100, 0x77, 0, 1], &[(0x100, &green.to_le_bytes())]);
        }
        for (at, green, address) in [(6, 0xc5, AT[0]), (10, 0xc6, AT[1])] {
            sample.call(0, "cuCtxSetCurrent", at..at + 1, &[green], &[]);
            sample.call(0, "cuMemAlloc_v2", at + 2..at + 3, &[0x100, 10], &[(0x100, &address.to_le_bytes())]);
        }
        sample.call(0, "cuGreenCtxDestroy", 14..15, &[0xc5], &[]);
        sample.call(0, "cuGreenCtxDestroy", 16..17, &[0xc6], &[]);
        let plan = plan(&sample.trace());
        let ends: Vec<_> = [7, 8].iter().map(|call| plan.memory.context_ends[call].memory.clone()).collect();
        assert_eq!(ends, [vec![], AT[..2].to_vec()]);
    }

    #[test]
    fn memory_outlives_a_green_context() {
        let mut sample = memory_in_a_green_context();
        sample.call(0, "cuGreenCtxDestroy", 10..11, &[0xc5], &[]);
        assert!(plan(&sample.trace()).memory.context_ends.values().all(|end| end.memory.is_empty()));
    }

    #[test]
    fn memory_of_a_stream_or_pool_is_on_its_device() {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample.call(0, "cuDevicePrimaryCtxRetain", 2..3, &[0x100, 1], &[(0x100, &0xc1u64.to_le_bytes())]);
        sample.call(0, "cuCtxSetCurrent", 4..5, &[0xc1], &[]);
        sample.call(0, "cuStreamCreate", 6..7, &[0x100, 1], &[(0x100, &0x51u64.to_le_bytes())]);
        sample.call(0, "cuDevicePrimaryCtxRetain", 8..9, &[0x100, 0], &[(0x100, &0xc0u64.to_le_bytes())]);
        sample.call(0, "cuCtxSetCurrent", 10..11, &[0xc0], &[]);
        sample.call(0, "cuDeviceGetMemPool", 12..13, &[0x100, 2], &[(0x100, &0x90u64.to_le_bytes())]);
        sample.call(0, "cuMemAllocAsync", 14..15, &[0x100, 10, 0x51], &[(0x100, &AT[0].to_le_bytes())]);
        sample.call(0, "cuMemAllocFromPoolAsync", 16..17, &[0x100, 20, 0x90, 0], &[(0x100, &AT[1].to_le_bytes())]);
        sample.call(0, "cuMemAllocAsync", 18..19, &[0x100, 40, 0], &[(0x100, &AT[2].to_le_bytes())]);
        let plan = plan(&sample.trace());
        assert_eq!([0, 1, 2].map(|device| plan.peak(device)), [40, 10, 20]);
    }

    #[test]
    fn a_primary_context_ends_with_its_last_release() {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        for (n, at) in AT.iter().enumerate() {
            let begin = 10 + 20 * n as u64;
            sample.call(
                0,
                "cuDevicePrimaryCtxRetain",
                begin..begin + 1,
                &[0x100, 0],
                &[(0x100, &0xc0u64.to_le_bytes())],
            );
            sample.call(0, "cuCtxSetCurrent", begin + 2..begin + 3, &[0xc0], &[]);
            sample.call(0, "cuMemAlloc_v2", begin + 4..begin + 5, &[0x100, 100], &[(0x100, &at.to_le_bytes())]);
            if n > 0 {
                sample.call(0, "cuDevicePrimaryCtxRelease_v2", begin + 6..begin + 7, &[0], &[]);
            }
        }
        // Retained once more than released: nothing ends.
        assert_eq!(plan(&sample.trace()).peak(0), 300);
        sample.call(0, "cuDevicePrimaryCtxRelease_v2", 90..91, &[0], &[]);
        sample.call(0, "cuMemAlloc_v2", 92..93, &[0x100, 150], &[(0x100, &AT[0].to_le_bytes())]);
        let plan = plan(&sample.trace());
        assert_eq!(plan.peak(0), 300);
        assert_eq!(plan.memory.context_ends.values().map(|end| end.memory.clone()).collect::<Vec<_>>(), [AT.to_vec()]);
    }

    #[test]
    fn a_context_that_is_detached_for_the_last_time_takes_its_memory_along() {
        let mut sample = Sample::new();
        let context = (0x100, &0xc5u64.to_le_bytes()[..]);
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample.call(0, "cuCtxCreate_v2", 2..3, &[0x100, 0, 0], &[context]);
        sample.call(0, "cuCtxAttach", 4..5, &[0x100, 0], &[context]);
        sample.call(0, "cuMemAlloc_v2", 6..7, &[0x100, 10], &[(0x100, &AT[0].to_le_bytes())]);
        sample.call(0, "cuCtxDetach", 8..9, &[0xc5], &[]);
        assert!(plan(&sample.trace()).memory.context_ends.is_empty());
        sample.call(0, "cuCtxDetach", 10..11, &[0xc5], &[]);
        let plan = plan(&sample.trace());
        let ends: Vec<_> =
            plan.memory.context_ends.iter().map(|(call, end)| (*call, &end.contexts[..], &end.memory[..])).collect();
        assert_eq!(ends, [(5, &[0xc5][..], &AT[..1])]);
    }
}
