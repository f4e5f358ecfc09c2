//! What the driver says of a kernel in a configuration: asked once for each.

use crate::driver::Driver;
use parking_lot::Mutex;
use std::collections::HashMap;
use trace::record::timed;

#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// A thread's.
    pub registers: u32,
    /// Bytes a block, and bytes a thread.
    pub static_shared: u32,
    pub local: u32,
    /// In thousandths.
    pub occupancy: u16,
}

#[derive(Default)]
pub struct Kernels {
    known: Mutex<HashMap<(u64, u32, u32), Facts>>,
}

const STATIC_SHARED: u64 = 1;
const LOCAL: u64 = 3;
const REGISTERS: u64 = 4;
const WARP_SIZE: u64 = 10;
const THREADS_PER_MULTIPROCESSOR: u64 = 39;

impl Kernels {
    /// Of a live function, or a kernel in its place, that has been launched: it is loaded.
    pub fn facts(&self, driver: &Driver, function: u64, threads: u32, shared: u32) -> Facts {
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
    let mut function = 0u64;
    // SAFETY: an output word and a live handle; a function that is no kernel is an error.
    if unsafe { driver.ask("cuKernelGetFunction", &[&raw mut function as u64, handle]) }.is_err() {
        function = handle;
    }
    let attribute = |attribute: u64| {
        let mut value = 0i32;
        // SAFETY: an output word and a live handle.
        let asked = unsafe { driver.ask("cuFuncGetAttribute", &[&raw mut value as u64, attribute, function]) };
        asked.map_or(timed::UNKNOWN, |()| value as u32)
    };
    Facts {
        registers: attribute(REGISTERS),
        static_shared: attribute(STATIC_SHARED),
        local: attribute(LOCAL),
        occupancy: occupancy(driver, function, threads, shared).unwrap_or(timed::UNKNOWN_OCCUPANCY),
    }
}

/// Of the current context's device.
fn occupancy(driver: &Driver, function: u64, threads: u32, shared: u32) -> Option<u16> {
    let (mut blocks, mut device) = (0i32, 0i32);
    let words = [&raw mut blocks as u64, function, threads.into(), shared.into()];
    // SAFETY: an output word and a live function.
    unsafe { driver.ask("cuOccupancyMaxActiveBlocksPerMultiprocessor", &words) }.ok()?;
    // SAFETY: an output word.
    unsafe { driver.ask("cuCtxGetDevice", &[&raw mut device as u64]) }.ok()?;
    let attribute = |attribute: u64| {
        let mut value = 0i32;
        let words = [&raw mut value as u64, attribute, device as u64];
        // SAFETY: an output word and a device's ordinal.
        unsafe { driver.ask("cuDeviceGetAttribute", &words) }.ok()?;
        u64::try_from(value).ok().filter(|value| *value > 0)
    };
    let warp = attribute(WARP_SIZE)?;
    let most = attribute(THREADS_PER_MULTIPROCESSOR)? / warp;
    let warps = u64::try_from(blocks).ok()? * u64::from(threads).div_ceil(warp);
    Some((warps * 1000).checked_div(most)?.min(1000) as u16)
}
