//! Occupancy queries.

use super::declare::entries;
use crate::abi::code::{Code, Result};
use crate::abi::structs::LaunchConfig;
use crate::abi::{Handle, Input, Out};
use crate::base::device;
use crate::objects::launch::per_multiprocessor;
use crate::objects::library;

/// Dynamic shared memory that a block of so many threads needs.
type SharedFor = extern "C-unwind" fn(i32) -> usize;

fn blocks(hfunction: Handle, threads: i32, dynamic: usize) -> Result<u32> {
    let function = library::function(hfunction)?;
    if threads <= 0 {
        return Err(Code::INVALID_VALUE);
    }
    if threads as u32 > device::MAX_THREADS {
        return Ok(0);
    }
    Ok(per_multiprocessor(threads as u32, (function.kernel().static_shared + dynamic) as u64))
}

/// The block size that keeps most threads resident, and the grid that fills the device with it.
fn best(hfunction: Handle, shared: Option<SharedFor>, dynamic: usize, limit: i32) -> Result<(i32, i32)> {
    let function = library::function(hfunction)?;
    let most = function.kernel().max_threads.unwrap_or(device::MAX_THREADS).min(device::MAX_THREADS);
    let most = if limit > 0 { most.min(limit as u32) } else { most };
    let mut best = (0, 0, 0);
    for threads in (1..=most.div_ceil(32)).rev().map(|warps| 32 * warps) {
        let dynamic = shared.map_or(dynamic, |f| f(threads as i32));
        let resident = blocks(hfunction, threads as i32, dynamic)?;
        if resident * threads > best.0 {
            best = (resident * threads, resident, threads);
        }
    }
    Ok((best.1 as i32 * device::MULTIPROCESSORS, best.2.min(most) as i32))
}

entries! {
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(count: Out<i32>, hfunction: Handle, threads: i32, dynamic: usize) {
        count.set(blocks(hfunction, threads, dynamic)? as i32)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        count: Out<i32>, hfunction: Handle, threads: i32, dynamic: usize, flags: u32,
    ) {
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        count.set(blocks(hfunction, threads, dynamic)? as i32)
    }

    calling cuOccupancyMaxPotentialBlockSize(
        grid: Out<i32>, block: Out<i32>, hfunction: Handle, shared: Option<SharedFor>, dynamic: usize, limit: i32,
    ) {
        let (blocks, threads) = best(hfunction, shared, dynamic, limit)?;
        grid.set(blocks)?;
        block.set(threads)
    }

    calling cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: Out<i32>, block: Out<i32>, hfunction: Handle, shared: Option<SharedFor>, dynamic: usize, limit: i32,
        flags: u32,
    ) {
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        let (blocks, threads) = best(hfunction, shared, dynamic, limit)?;
        grid.set(blocks)?;
        block.set(threads)
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(bytes: Out<usize>, hfunction: Handle, count: i32, threads: i32) {
        let function = library::function(hfunction)?;
        if count <= 0 || threads <= 0 {
            return Err(Code::INVALID_VALUE);
        }
        let share = device::SHARED_PER_MULTIPROCESSOR as usize / count as usize;
        let taken = function.kernel().static_shared + 1024;
        bytes.set(share.saturating_sub(taken).min(function.settings.max_dynamic(function.kernel()) as usize))
    }

    fn cuOccupancyMaxPotentialClusterSize(size: Out<i32>, hfunction: Handle, config: Input<LaunchConfig>) {
        library::function(hfunction)?;
        config.get()?;
        size.set(8)
    }

    fn cuOccupancyMaxActiveClusters(count: Out<i32>, hfunction: Handle, config: Input<LaunchConfig>) {
        let config = config.get()?;
        let threads = config.threads.iter().product::<u32>() as i32;
        let resident = blocks(hfunction, threads, config.dynamic_shared as usize)? as i32;
        count.set(resident * device::MULTIPROCESSORS)
    }
}
