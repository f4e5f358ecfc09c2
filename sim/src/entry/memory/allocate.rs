//! Device and managed memory.

use crate::abi::code::{Code, Result};
use crate::abi::{DevicePointer, Out};
use crate::base::registry::handle_of;
use crate::base::state;
use crate::entry::declare::entries;
use crate::graphs::capture::check_unsafe_call;
use crate::memory::allocate::{self, allocate, balance};
use crate::memory::graph_allocation;
use crate::memory::table::{self, Kind};
use crate::streams::context;

/// What cuMemAllocPitch rounds rows up to.
const PITCH: usize = 512;

/// Refuses memory that is not managed.
pub(crate) fn managed(at: DevicePointer) -> Result {
    match table::read().find(at) {
        Some(range) if range.kind == Kind::Managed => Ok(()),
        _ => Err(Code::INVALID_VALUE),
    }
}

entries! {
    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        let (left, all) = balance(context::usable()?.device);
        free.set(left as usize)?;
        total.set(all as usize)
    }

    fn cuMemAlloc_v2(at: Out<DevicePointer>, bytes: usize) {
        let context = context::usable()?;
        check_unsafe_call()?;
        if at.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        at.set(allocate(bytes as u64, Kind::Device, context.device, handle_of(&context))?)
    }

    fn cuMemAllocPitch_v2(at: Out<DevicePointer>, pitch: Out<usize>, width: usize, height: usize, element: u32) {
        let context = context::usable()?;
        check_unsafe_call()?;
        if at.is_null() || pitch.is_null() || width == 0 || height == 0 || ![4, 8, 16].contains(&element) {
            return Err(Code::INVALID_VALUE);
        }
        let row = width.checked_next_multiple_of(PITCH).ok_or(Code::OUT_OF_MEMORY)?;
        let bytes = row.checked_mul(height).ok_or(Code::OUT_OF_MEMORY)?;
        at.set(allocate(bytes as u64, Kind::Device, context.device, handle_of(&context))?)?;
        pitch.set(row)
    }

    fn cuMemAllocManaged(at: Out<DevicePointer>, bytes: usize, flags: u32) {
        let context = context::usable()?;
        check_unsafe_call()?;
        if at.is_null() || ![1, 2].contains(&flags) {
            return Err(Code::INVALID_VALUE);
        }
        at.set(allocate(bytes as u64, Kind::Managed, context.device, handle_of(&context))?)
    }

    /// Waits for the work of the memory's context first, as the driver does.
    fn cuMemFree_v2(at: DevicePointer) {
        if at == 0 {
            return state::ready();
        }
        let context = context::usable_at(at)?;
        check_unsafe_call()?;
        let range = table::read().find(at).copied().filter(|r| r.start == at).ok_or(Code::INVALID_VALUE)?;
        context::find(range.context).unwrap_or(context).lanes.wait_all();
        if range.kind == Kind::Graph {
            graph_allocation::free(at).ok_or(Code::INVALID_VALUE)?.activate(false);
            return Ok(());
        }
        allocate::free(at)
    }

    fn cuMemGetAddressRange_v2(base: Out<DevicePointer>, size: Out<usize>, at: DevicePointer) {
        context::current()?;
        let range = table::find_live(at).ok_or(Code::NOT_FOUND)?;
        base.set_if(range.start);
        size.set_if(range.size as usize);
        Ok(())
    }
}
