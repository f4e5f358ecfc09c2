//! Pinned and registered host memory.

use std::ffi::c_void;

use crate::abi::code::{Code, Result};
use crate::abi::{DevicePointer, Out};
use crate::base::registry::handle_of;
use crate::entry::declare::entries;
use crate::graphs::capture::check_unsafe_call;
use crate::memory::pinned;
use crate::streams::context;

pub(crate) fn allocate(at: Out<*mut c_void>, bytes: usize, flags: u32) -> Result {
    let context = context::usable()?;
    check_unsafe_call()?;
    if at.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let address = pinned::allocate(bytes as u64, flags, context.device, handle_of(&context))?;
    at.set(address as *mut c_void)
}

fn register(at: u64, bytes: usize, flags: u32) -> Result {
    let context = context::usable()?;
    pinned::register(at, bytes as u64, flags, context.device, handle_of(&context))
}

entries! {
    fn cuMemAllocHost_v2(at: Out<*mut c_void>, bytes: usize) {
        allocate(at, bytes, 0)
    }

    fn cuMemHostAlloc(at: Out<*mut c_void>, bytes: usize, flags: u32) {
        allocate(at, bytes, flags)
    }

    fn cuMemFreeHost(at: u64) {
        if at == 0 {
            return Ok(());
        }
        context::usable_at(at)?.lanes.wait_all();
        pinned::free(at)
    }

    fn cuMemHostRegister(at: u64, bytes: usize, flags: u32) {
        register(at, bytes, flags)
    }

    fn cuMemHostRegister_v2(at: u64, bytes: usize, flags: u32) {
        register(at, bytes, flags)
    }

    fn cuMemHostUnregister(at: u64) {
        context::usable_at(at)?.lanes.wait_all();
        pinned::unregister(at)
    }

    fn cuMemHostGetDevicePointer_v2(device: Out<DevicePointer>, at: u64, flags: u32) {
        context::usable()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        device.set(pinned::device_pointer(at)?)
    }

    fn cuMemHostGetFlags(flags: Out<u32>, at: u64) {
        context::usable()?;
        flags.set(pinned::flags(at)?)
    }
}
