//! Memory that graphs allocate.

use crate::abi::code::Code;
use crate::abi::structs::{AccessDescriptor, AllocationNodeParameters, Location, PoolProperties};
use crate::abi::{DevicePointer, Handle, Input, Out};
use crate::base::device;
use crate::entry::declare::entries;
use crate::entry::graphs::node::add;
use crate::graphs::graph;
use crate::graphs::node::Kind;
use crate::memory::graph_allocation::{self, Memory};
use crate::memory::table;
use crate::streams::context;

const PINNED: u32 = 1;
const DEVICE: u32 = 1;

entries! {
    fn cuGraphAddMemAllocNode(
        made: Out<Handle>, hgraph: Handle, after: Input<Handle>, count: usize, given: Out<AllocationNodeParameters>,
    ) {
        let mut parameters = given.get()?;
        let location = parameters.pool.location;
        if parameters.pool.kind != PINNED || location.kind != DEVICE {
            return Err(Code::INVALID_VALUE);
        }
        device::check(location.id).map_err(|_| Code::INVALID_VALUE)?;
        let memory = Memory::new(parameters.bytes as u64, location.id, context::current_handle())?;
        parameters.at = memory.at;
        add(made, hgraph, after, count, Kind::Allocate(memory))?;
        given.set(parameters)
    }

    fn cuGraphMemAllocNodeGetParams(hnode: Handle, to: Out<AllocationNodeParameters>) {
        let Kind::Allocate(memory) = graph::find_node(hnode)?.kind() else { return Err(Code::INVALID_VALUE) };
        let location = Location { kind: DEVICE, id: memory.device };
        let pool = PoolProperties {
            kind: PINNED,
            handle_types: 0,
            location,
            windows: 0,
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        };
        let access: Input<AccessDescriptor> = Input::from_raw(std::ptr::null());
        let (bytes, at) = (memory.size as usize, memory.at);
        to.set(AllocationNodeParameters { pool, access, access_count: 0, bytes, at })
    }

    fn cuGraphAddMemFreeNode(made: Out<Handle>, hgraph: Handle, after: Input<Handle>, count: usize, at: DevicePointer) {
        let graph = table::read().find(at).is_some_and(|r| r.start == at && r.kind == table::Kind::Graph);
        if !graph {
            return Err(Code::INVALID_VALUE);
        }
        add(made, hgraph, after, count, Kind::Free(at))
    }

    fn cuGraphMemFreeNodeGetParams(hnode: Handle, at: Out<DevicePointer>) {
        match graph::find_node(hnode)?.kind() {
            Kind::Free(found) => at.set(found),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuDeviceGraphMemTrim(dev: i32) {
        device::check(dev)?;
        graph_allocation::trim(dev);
        Ok(())
    }
}
