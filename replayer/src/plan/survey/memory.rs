//! What calls do to memory: allocations, frees, reservations, variables of modules, memory that nobody seems
//! to have made.

use super::{Survey, extent};
use crate::addresses::GRANULE;
use crate::plan::Allocation;
use crate::plan::nested::structs;
use crate::plan::order::Moment;
use crate::ranges::widen;
use std::ops::Range;
use trace::api::effect::{Effect, Memory as Kind};
use trace::api::enums::{CUmemAllocationType, CUmemLocationType};
use trace::api::roles::{Class, Field, Role};
use trace::api::types::{Form, Kind as Handle, Typed};
use trace::call::When;
use trace::invented::block_of;
use trace::model::change::Change;
use trace::model::stream::StreamId;
use trace::{Call, Function, Trace};

const ADOPTED: &str = "writes memory that no recorded call made, as the driver's own tables make it: what they do with it is not \
                       recorded (nvJPEG has the JPEG engine decode so), and what it held before is taken to be zeros";

const ELSEWHERE: &str =
    "the device has pinned host memory at another address than the CPU: what the CPU wrote there may not be recorded";

const OF_CPU: [CUmemLocationType; 3] = [
    CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST,
    CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA,
    CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT,
];

const OF_HOST: &str =
    "memory of the host, or managed, that is no cuMemAllocManaged's: what the CPU writes there is not recorded";

impl Survey {
    /// Pools and pieces of memory that the CPU writes like its own.
    pub(super) fn of_host(&mut self, call: &Call, function: &'static Function) {
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
    pub(super) fn adopt(&mut self, call: &Call, function: &Function) {
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
            self.usage.add(range.start, len, device, None);
            self.plan.devices.insert(device);
            let allocation = Allocation { call: call.number, range, device };
            self.plan.adopted.entry(call.number).or_default().push(allocation);
            self.reasons.about_call(ADOPTED, call.number);
        }
    }

    /// Whether a replay knows where this is.
    pub(super) fn is_known(&self, address: u64) -> bool {
        self.live.holds(address) || self.blocks.contains(&block_of(address))
    }

    /// Memory that a replay gives and takes by means of its own.
    pub(super) fn memory(&mut self, trace: &Trace, call: &Call, change: Change) {
        match change {
            Change::Allocated { kind, at, bytes, .. } => {
                self.allocated(trace, call, kind, at..at.saturating_add(bytes.unwrap_or(0)));
            }
            Change::Freed { kind, at } => self.freed(call, kind, at),
            _ => {}
        }
    }

    fn allocated(&mut self, trace: &Trace, call: &Call, kind: Kind, range: Range<u64>) {
        let (start, len) = (range.start, range.end - range.start);
        let end = call.end.unwrap_or(u64::MAX);
        let moment = Moment { call: call.number, thread: call.thread, begin: call.begin, end };
        if self.is_captured() {
            self.plan.captured.insert(call.number, len);
            self.of_graph(start, len);
            return;
        }
        self.live.add(start, len, end);
        self.lifetimes.takes(range.clone(), moment);
        match kind {
            Kind::Pinned | Kind::Registered => self.host.insert(range),
            Kind::Addresses => self.reserved.push(range),
            _ => self.of_device(trace, call, kind, range),
        }
    }

    fn of_device(&mut self, trace: &Trace, call: &Call, kind: Kind, range: Range<u64>) {
        let (start, len) = (range.start, range.end - range.start);
        self.of_graphs.remove(&start);
        self.handovers.allocated(start, len, self.own_stream(call), call.number, call.end.unwrap_or(u64::MAX));
        let contexts = &self.work.streams.contexts;
        let device = contexts.device_of_allocation(call);
        let context = contexts.owner(call.thread).filter(|_| !kind.outlives_contexts());
        self.plan.devices.insert(device);
        self.usage.add(start, len, device, context);
        if kind == Kind::Managed {
            self.managed.insert(range.clone());
            if !trace.follows_host_memory() {
                let what = "managed memory: what the CPU wrote there is not recorded";
                self.reasons.about_call(what, call.number);
            }
        }
        self.plan.allocations.insert(call.number, Allocation { call: call.number, range, device });
    }

    fn freed(&mut self, call: &Call, kind: Kind, start: u64) {
        let begin = call.begin;
        let moment = Moment { call: call.number, thread: call.thread, begin, end: call.end.unwrap_or(u64::MAX) };
        if let Some(len) = self.live.given_up(start, begin) {
            self.lifetimes.frees(start..start + len, moment);
        }
        if matches!(kind, Kind::Device | Kind::Pooled) {
            if self.of_graphs.contains(&start) {
                return;
            }
            if let Some(stream) = self.own_stream(call) {
                self.handovers.freed(start, stream, call.number, begin);
            }
            self.usage.remove(start);
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
    pub(super) fn variables(&mut self, trace: &Trace, call: &Call, function: &Function) {
        /// Where the length was not asked for.
        const SOME: u64 = 64 << 10;
        let module = self.plan.reach.made(call, function, &mut self.live);
        self.plan.reach.makes_image(trace, call, function, &mut self.live);
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
            if let Some((start, len)) = recorded(fields).and_then(|bytes| trace::recorded::made_in(fields, &bytes)) {
                self.of_graph(start, len);
            }
        }
    }

    /// Pinned memory is known by one address. Where devices cannot use the CPU's they are given another,
    /// which nobody follows.
    pub(super) fn mapped(&mut self, call: &Call, function: &Function) {
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
