//! Stream-ordered memory.

use crate::abi::code::{Code, Result};
use crate::abi::structs::{AccessDescriptor, Location, PoolProperties};
use crate::abi::{DevicePointer, Handle, Input, NullStream, Out};
use crate::base::device;
use crate::entry::declare::entries;
use crate::graphs::node::Kind;
use crate::memory::graph_allocation::{self, Memory};
use crate::memory::{pool, table};
use crate::streams::stream;
use crate::streams::work::Work;

/// `pool` 0 means the device's current one.
fn allocate(at: Out<DevicePointer>, bytes: usize, pool: Handle, hstream: Handle, null: NullStream) -> Result {
    if at.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let stream = stream::find(hstream, null)?;
    stream.context()?.check()?;
    if let Some(part) = &mut *stream.part.lock() {
        let memory = Memory::new(bytes as u64, stream.device, stream.context_handle)?;
        at.set(memory.at)?;
        return part.add(Kind::Allocate(memory));
    }
    let pool = if pool == 0 { pool::of_device(stream.device).1 } else { pool };
    at.set(pool::find(pool)?.allocate(bytes as u64, stream.context_handle)?)
}

/// There are pools of pinned memory on devices.
fn of_location(location: Input<Location>, kind: u32) -> Result<i32> {
    let location = location.get()?;
    device::check(location.id)?;
    if location.kind == 1 && kind == 1 { Ok(location.id) } else { Err(Code::INVALID_VALUE) }
}

entries! {
    fn cuMemAllocAsync / cuMemAllocAsync_ptsz [null] (at: Out<DevicePointer>, bytes: usize, hstream: Handle) {
        allocate(at, bytes, 0, hstream, null)
    }

    fn cuMemAllocFromPoolAsync / cuMemAllocFromPoolAsync_ptsz [null] (
        at: Out<DevicePointer>, bytes: usize, pool: Handle, hstream: Handle,
    ) {
        pool::find(pool)?;
        allocate(at, bytes, pool, hstream, null)
    }

    fn cuMemFreeAsync / cuMemFreeAsync_ptsz [null] (at: DevicePointer, hstream: Handle) {
        let stream = stream::find(hstream, null)?;
        stream.context()?.check()?;
        let kind = table::read().find(at).filter(|r| r.start == at).map(|r| r.kind);
        if let Some(part) = &mut *stream.part.lock() {
            let graph = kind == Some(table::Kind::Graph);
            return if graph { part.add(Kind::Free(at)) } else { Err(Code::INVALID_VALUE) };
        }
        let work = match kind {
            Some(table::Kind::Pool(_) | table::Kind::Device) => Work::Free(at),
            Some(table::Kind::Graph) => Work::Activate(graph_allocation::free(at).ok_or(Code::INVALID_VALUE)?, false),
            _ => return Err(Code::INVALID_VALUE),
        };
        stream.submit(work, Vec::new()).map(drop)
    }

    fn cuDeviceGetDefaultMemPool(pool: Out<Handle>, dev: i32) {
        device::check(dev)?;
        pool.set(pool::of_device(dev).0)
    }

    fn cuDeviceGetMemPool(pool: Out<Handle>, dev: i32) {
        device::check(dev)?;
        pool.set(pool::of_device(dev).1)
    }

    fn cuDeviceSetMemPool(dev: i32, pool: Handle) {
        device::check(dev)?;
        pool::set_current(dev, pool)
    }

    fn cuMemGetDefaultMemPool(pool: Out<Handle>, location: Input<Location>, kind: u32) {
        pool.set(pool::of_device(of_location(location, kind)?).0)
    }

    fn cuMemGetMemPool(pool: Out<Handle>, location: Input<Location>, kind: u32) {
        pool.set(pool::of_device(of_location(location, kind)?).1)
    }

    fn cuMemSetMemPool(location: Input<Location>, kind: u32, pool: Handle) {
        pool::set_current(of_location(location, kind)?, pool)
    }

    fn cuMemPoolCreate(pool: Out<Handle>, properties: Input<PoolProperties>) {
        let properties = properties.get()?;
        if pool.is_null() || properties.kind != 1 || properties.location.kind != 1 {
            return Err(Code::INVALID_VALUE);
        }
        device::check(properties.location.id)?;
        // Pools grow by blocks of this size, and so does their limit.
        const BLOCK: u64 = 32 << 20;
        let most = (properties.max_size != 0).then(|| (properties.max_size as u64).next_multiple_of(BLOCK));
        pool.set(pool::create(properties.location.id, most))
    }

    fn cuMemPoolDestroy(pool: Handle) {
        pool::find(pool)?;
        pool::destroy(pool)
    }

    fn cuMemPoolSetAttribute(pool: Handle, attribute: u32, value: Input<u32>) {
        let pool = pool::find(pool)?;
        let low = u64::from(value.get()?);
        let wide = attribute > 3;
        let value = if wide { low | u64::from(value.element(1)?) << 32 } else { low };
        pool.set_attribute(attribute, value)
    }

    fn cuMemPoolGetAttribute(pool: Handle, attribute: u32, value: Out<u32>) {
        let found = pool::find(pool)?.attribute(attribute)?;
        value.set(found as u32)?;
        if attribute > 3 {
            value.set_at(1, (found >> 32) as u32);
        }
        Ok(())
    }

    /// Unused memory goes back at once here.
    fn cuMemPoolTrimTo(pool: Handle, _keep: usize) {
        pool::find(pool).map(drop)
    }

    fn cuMemPoolSetAccess(pool: Handle, descriptors: Input<AccessDescriptor>, count: usize) {
        let pool = pool::find(pool)?;
        for descriptor in descriptors.all(count)? {
            device::check(descriptor.location.id)?;
            if descriptor.location.id == pool.device && descriptor.flags != 3 {
                return Err(Code::INVALID_DEVICE);
            }
        }
        Ok(())
    }

    fn cuMemPoolGetAccess(flags: Out<u32>, pool: Handle, location: Input<Location>) {
        pool::find(pool)?;
        device::check(location.get()?.id)?;
        flags.set(3)
    }
}
