//! What calls do to memory: allocations, frees, reservations, variables of modules, memory that nobody seems to have made.

use super::{Survey, extent};
use crate::addresses::GRANULE;
use crate::plan::Allocation;
use crate::plan::action::Memory;
use crate::plan::nested::structs;
use crate::plan::order::Moment;
use crate::ranges::widen;
use trace::api::enums::{CUmemAllocationType, CUmemLocationType};
use trace::api::roles::{Class, Field, Role};
use trace::api::types::Form;
use trace::call::When;
use trace::invented::block_of;
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
        const MAKERS: &[&str] =
            &["cuMemPoolCreate", "cuMemCreate", "cuMemGetMemPool", "cuMemGetDefaultMemPool", "cuMemSetMemPool"];
        if !MAKERS.contains(&function.name) {
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

    /// Memory that no recorded call made, as libraries have it of the driver's own tables: the first that is seen of it is a fill or
    /// a copy into it. How far it goes nobody tells; the driver gives out such memory in whole granules.
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

    pub(super) fn memory(&mut self, trace: &Trace, call: &Call, memory: Memory) {
        let argument = |name| call.argument(name).unwrap_or(0);
        let (begin, end) = (call.begin, call.end.unwrap_or(u64::MAX));
        let moment = Moment { call: call.number, thread: call.thread, begin, end };
        let freed = match memory {
            Memory::Free | Memory::FreeAsync => Some(argument("dptr")),
            Memory::HostFree => Some(argument("p")),
            Memory::Unreserve => Some(argument("ptr")),
            _ => None,
        };
        if let Some((start, len)) = freed.and_then(|start| Some((start, self.live.given_up(start, begin)?))) {
            self.lifetimes.frees(start..start + len, moment);
        }
        match memory {
            Memory::Allocate => {
                let Some(start) = call.output("dptr") else { return };
                let len = match call.output("pPitch") {
                    Some(pitch) => pitch.saturating_mul(argument("Height")),
                    None => argument("bytesize"),
                };
                if self.is_captured() {
                    self.plan.captured.insert(call.number, len);
                    self.of_graph(start, len);
                    return;
                }
                self.of_graphs.remove(&start);
                self.handovers.allocated(start, len, self.own_stream(call), call.number, end);
                let device = self.work.streams.contexts.device_of_allocation(call);
                // What comes out of a pool outlives the context.
                let context =
                    self.work.streams.contexts.current(call.thread).filter(|_| call.argument("hStream").is_none());
                let range = start..start.saturating_add(len);
                self.live.add(start, len, end);
                self.lifetimes.takes(range.clone(), moment);
                self.plan.devices.insert(device);
                self.usage.add(start, len, device, context);
                if call.name() == "cuMemAllocManaged" {
                    self.managed.insert(range.clone());
                }
                self.plan.allocations.insert(call.number, Allocation { call: call.number, range, device });
                if call.name() == "cuMemAllocManaged" && !trace.follows_host_memory() {
                    let what = "managed memory: what the CPU wrote there is not recorded";
                    self.reasons.about_call(what, call.number);
                }
            }
            Memory::Free | Memory::FreeAsync if self.of_graphs.contains(&argument("dptr")) => {}
            Memory::Free | Memory::FreeAsync => {
                if let Some(stream) = self.own_stream(call) {
                    self.handovers.freed(argument("dptr"), stream, call.number, begin);
                }
                self.live.remove(argument("dptr"), begin);
                self.usage.remove(argument("dptr"));
            }
            Memory::HostAllocate | Memory::HostRegister => {
                let start = if memory == Memory::HostRegister { Some(argument("p")) } else { call.output("pp") };
                let Some(start) = start else { return };
                let range = start..start.saturating_add(argument("bytesize"));
                self.live.add(start, argument("bytesize"), end);
                self.lifetimes.takes(range.clone(), moment);
                self.host.insert(range);
            }
            Memory::HostFree => self.live.remove(argument("p"), begin),
            Memory::Reserve => {
                let Some(start) = call.output("ptr") else { return };
                let range = start..start.saturating_add(argument("size"));
                self.live.add(start, argument("size"), end);
                self.lifetimes.takes(range.clone(), moment);
                self.reserved.push(range);
            }
            Memory::Unreserve => self.live.remove(argument("ptr"), begin),
        }
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
        if function.finds_variable()
            && let Some((start, module)) = call.output("dptr").zip(module)
        {
            let len = call.output("bytes").unwrap_or(SOME);
            self.live.add_as(module, start, len, 0);
            self.tagged.moves(start, len);
            self.blocks.insert(block_of(start));
        }
        for param in function.params {
            let Form::Pointer(to) = param.ty.form else { continue };
            let Form::Struct(fields) = to.form else { continue };
            let recorded = |fields: &'static [Field]| {
                let made = fields.iter().any(|field| matches!(field.role, Role::Created));
                made.then(|| call.memory(When::Return, call.argument(param.name)?, to.size.into())).flatten()
            };
            if let Some((start, len)) = recorded(fields).and_then(|bytes| trace::recorded::made_in(fields, &bytes)) {
                self.of_graph(start, len);
            }
        }
    }

    /// Pinned memory is known by one address. Where devices cannot use the CPU's they are given another, which nobody follows.
    pub(super) fn mapped(&mut self, call: &Call, function: &Function) {
        let addresses = call.output("pdptr").zip(call.argument("p"));
        if function.name == "cuMemHostGetDevicePointer_v2" && addresses.is_some_and(|(device, host)| device != host) {
            self.reasons.about_call(ELSEWHERE, call.number);
        }
    }
}
