//! Launches.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::declare::entries;
use crate::abi::code::{Code, Result};
use crate::abi::structs::LaunchConfig;
use crate::abi::{Handle, Input, NullStream};
use crate::objects::launch::{self, Shape};
use crate::streams::stream;

type Pointers = Input<*const c_void>;

const NO_EXTRA: Pointers = Input::from_raw(std::ptr::null());
const COOPERATIVE: u32 = 2;
const CLUSTER: u32 = 4;
const UPDATABLE: u32 = 13;

fn launch(
    hfunction: Handle,
    shape: Shape,
    hstream: Handle,
    values: Pointers,
    extra: Pointers,
    null: NullStream,
) -> Result {
    let grid = launch::prepare(hfunction, shape, values, extra)?;
    let stream = stream::find(hstream, null)?;
    launch::submit(&stream, grid)
}

/// A launch by a configuration. Attributes are hints, but for these.
fn configured(
    config: Input<LaunchConfig>,
    hfunction: Handle,
    values: Pointers,
    extra: Pointers,
    null: NullStream,
) -> Result {
    let config = config.get()?;
    let (mut cooperative, mut cluster) = (false, [1; 3]);
    let attributes = config.attributes.all(config.count as usize)?;
    for (index, attribute) in attributes.into_iter().enumerate() {
        match attribute.id {
            // Driver 580 refuses one that has a node already.
            UPDATABLE if attribute.value[2..4] != [0, 0] => return Err(Code::INVALID_VALUE),
            UPDATABLE => {
                static NODES: AtomicU32 = AtomicU32::new(0);
                let mut given = attribute;
                given.value[2..4].copy_from_slice(&[std::process::id() << 12 | NODES.fetch_add(0x40, Relaxed), 0x7d00]);
                config.attributes.as_out().set_at(index, given);
            }
            COOPERATIVE => cooperative = attribute.value[0] != 0,
            CLUSTER => cluster.copy_from_slice(&attribute.value[..3]),
            _ => {}
        }
    }
    if cluster.iter().zip(config.blocks).any(|(&size, blocks)| size == 0 || blocks % size != 0) {
        return Err(Code::INVALID_CLUSTER_SIZE);
    }
    let LaunchConfig { blocks, threads, dynamic_shared, .. } = config;
    let shape = Shape { blocks, threads, dynamic_shared, cooperative, cluster };
    launch(hfunction, shape, config.stream, values, extra, null)
}

entries! {
    fn cuLaunchKernel / cuLaunchKernel_ptsz [null] (
        hfunction: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        dynamic_shared: u32, hstream: Handle, values: Input<*const c_void>, extra: Input<*const c_void>,
    ) {
        let (blocks, threads) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(hfunction, Shape { blocks, threads, dynamic_shared, cooperative: false, cluster: [1; 3] }, hstream, values, extra, null)
    }

    fn cuLaunchCooperativeKernel / cuLaunchCooperativeKernel_ptsz [null] (
        hfunction: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        dynamic_shared: u32, hstream: Handle, values: Input<*const c_void>,
    ) {
        let (blocks, threads) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(hfunction, Shape { blocks, threads, dynamic_shared, cooperative: true, cluster: [1; 3] }, hstream, values, NO_EXTRA, null)
    }

    fn cuLaunchKernelEx / cuLaunchKernelEx_ptsz [null] (
        config: Input<LaunchConfig>, hfunction: Handle, values: Input<*const c_void>, extra: Input<*const c_void>,
    ) {
        configured(config, hfunction, values, extra, null)
    }
}
