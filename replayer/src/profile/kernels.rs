//! The driver's attributes of a kernel in a launch configuration, queried once for each.

use crate::driver::Driver;
use parking_lot::Mutex;
use std::collections::HashMap;
use trace::api::enums::{CUdevice_attribute, CUfunction_attribute as Of};
use trace::file::record::timed;

#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// A thread's.
    pub registers: u32,
    /// Bytes a block, and bytes a thread.
    pub static_shared: u32,
    pub local: u32,
    /// In thousandths.
    pub occupancy: u16,
}

#[derive(Default)]
pub(super) struct Kernels {
    known: Mutex<HashMap<(u64, u32, u32), Facts>>,
}

impl Kernels {
    /// Of a live function, or a kernel in its place, that has been launched: it is loaded.
    pub(super) fn facts(&self, driver: &Driver, function: u64, threads: u32, shared: u32) -> Facts {
        let key = (function, threads, shared);
        if let Some(facts) = self.known.lock().get(&key) {
            return *facts;
        }
        let facts = ask(driver, function, threads, shared);
        self.known.lock().insert(key, facts);
        facts
    }
}

fn ask(driver: &Driver, handle: u64, threads: u32, shared: u32) -> Facts {
    // A function that is no kernel is an error.
    let function = driver.function_of_kernel(handle).unwrap_or(handle);
    let attribute = |which| driver.function_attribute(function, which).map_or(timed::UNKNOWN, |value| value as u32);
    Facts {
        registers: attribute(Of::CU_FUNC_ATTRIBUTE_NUM_REGS),
        static_shared: attribute(Of::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
        local: attribute(Of::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
        occupancy: occupancy(driver, function, threads, shared).unwrap_or(timed::UNKNOWN_OCCUPANCY),
    }
}

/// Of the current context's device.
fn occupancy(driver: &Driver, function: u64, threads: u32, shared: u32) -> Option<u16> {
    let blocks = driver.active_blocks(function, threads, shared).ok()?;
    let device = driver.current_device().ok()?;
    let attribute = |which| {
        let value = driver.device_attribute(device, which).ok()?;
        u64::try_from(value).ok().filter(|value| *value > 0)
    };
    let warp = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?;
    let most = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)? / warp;
    let warps = u64::try_from(blocks).ok()? * u64::from(threads).div_ceil(warp);
    Some((warps * 1000).checked_div(most)?.min(1000) as u16)
}
