//! Properties of the devices, as the driver reports them.

use crate::driver::calls;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use trace::file::record::Device;

static DESCRIBED: AtomicBool = AtomicBool::new(false);

/// Those to be described in the trace: all, once, after the first cuInit that succeeded.
#[cold]
pub(crate) fn undescribed() -> Vec<Device> {
    if DESCRIBED.swap(true, Relaxed) {
        return Vec::new();
    }
    (0..count()).map(describe).collect()
}

/// A forked child finds that its parent had described them, until it forgets it.
pub(crate) fn are_described() -> bool {
    DESCRIBED.load(Relaxed)
}

/// A new process describes them anew.
pub(crate) fn forget() {
    DESCRIBED.store(false, Relaxed);
}

fn count() -> i32 {
    let mut count = 0;
    // SAFETY: the output is valid.
    unsafe { calls::device_count(&mut count) };
    count
}

/// Compute capability, major and minor; zeros if the driver would not tell.
pub(crate) fn compute(ordinal: i32) -> (i32, i32) {
    let mut compute = (0, 0);
    // SAFETY: a CUdevice is its ordinal.
    unsafe {
        calls::device_attribute(&mut compute.0, 75, ordinal);
        calls::device_attribute(&mut compute.1, 76, ordinal);
    }
    compute
}

fn describe(ordinal: i32) -> Device {
    let mut name = [0u8; 256];
    let mut device = Device { ordinal, name: String::new(), uuid: [0; 16], memory: 0, compute: (0, 0) };
    // SAFETY: the outputs have room; a CUdevice is its ordinal.
    unsafe {
        calls::device_name(name.as_mut_ptr(), 256, ordinal);
        calls::device_uuid(&mut device.uuid, ordinal);
        calls::device_memory(&mut device.memory, ordinal);
    }
    device.compute = compute(ordinal);
    let end = name.iter().position(|b| *b == 0).unwrap_or(0);
    device.name = String::from_utf8_lossy(&name[..end]).into_owned();
    device
}
