//! Objects of the application that graphs keep alive, and the memory that graphs own.

use crate::abi::code::Code;
use crate::abi::{Handle, HostFunction, Opaque, Out};
use crate::base::device;
use crate::entry::declare::entries;
use crate::graphs::{graph, user_object};
use crate::memory::graph_allocation;

const MOVE: u32 = 1;
const NO_DESTRUCTOR_SYNC: u32 = 1;

entries! {
    fn cuUserObjectCreate(made: Out<Handle>, data: Opaque, destroy: Option<HostFunction>, count: u32, flags: u32) {
        let destroy = destroy.filter(|_| count > 0 && flags == NO_DESTRUCTOR_SYNC).ok_or(Code::INVALID_VALUE)?;
        if made.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        made.set(user_object::create(destroy, data, count))
    }

    fn cuUserObjectRetain(object: Handle, count: u32) {
        user_object::retain(object, count)
    }

    fn cuUserObjectRelease(object: Handle, count: u32) {
        user_object::release(object, count)
    }

    fn cuGraphRetainUserObject(hgraph: Handle, object: Handle, count: u32, flags: u32) {
        let graph = graph::find(hgraph)?;
        if flags & MOVE == 0 {
            user_object::retain(object, count)?;
        }
        graph.held.add(object, count);
        Ok(())
    }

    fn cuGraphReleaseUserObject(hgraph: Handle, object: Handle, count: u32) {
        graph::find(hgraph)?.held.take(object, count)?;
        user_object::release(object, count)
    }

    fn cuDeviceGetGraphMemAttribute(dev: i32, attribute: u32, value: Out<u64>) {
        device::check(dev)?;
        value.set(graph_allocation::attribute(dev, attribute)?)
    }

    fn cuDeviceSetGraphMemAttribute(dev: i32, attribute: u32, value: crate::abi::Input<u64>) {
        device::check(dev)?;
        // Only the marks of the highest can be set, and only back.
        if value.get()? == 0 { graph_allocation::reset_high(dev, attribute) } else { Err(Code::INVALID_VALUE) }
    }
}
