//! Launches in the form before CUDA 4, in which a function keeps its block and its arguments; and launches on
//! several devices at once.

use std::ffi::c_void;

use super::declare::entries;
use crate::abi::code::{Code, Result};
use crate::abi::{Bytes, Handle, Input, NullStream};
use crate::objects::launch::{self, Shape};
use crate::objects::module::{self, Configured};
use crate::streams::stream;

/// CUDA_LAUNCH_PARAMS.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct LaunchParameters {
    function: Handle,
    blocks: [u32; 3],
    threads: [u32; 3],
    dynamic_shared: u32,
    stream: Handle,
    values: Input<*const c_void>,
}

fn configure(hfunction: Handle, change: impl FnOnce(&mut Configured) -> Result) -> Result {
    change(&mut module::function(hfunction)?.configured.lock())
}

fn set_argument(hfunction: Handle, offset: i32, bytes: &[u8]) -> Result {
    configure(hfunction, |configured| {
        let at = usize::try_from(offset).map_err(|_| Code::INVALID_VALUE)?;
        let end = at.checked_add(bytes.len()).filter(|end| *end <= 4096).ok_or(Code::INVALID_VALUE)?;
        if configured.arguments.len() < end {
            configured.arguments.resize(end, 0);
        }
        configured.arguments[at..end].copy_from_slice(bytes);
        Ok(())
    })
}

fn grid(hfunction: Handle, width: i32, height: i32, hstream: Handle) -> Result {
    let Configured { threads, dynamic_shared, arguments, size } =
        module::function(hfunction)?.configured.lock().clone();
    let (width, height) = (u32::try_from(width), u32::try_from(height));
    let blocks = [width.map_err(|_| Code::INVALID_VALUE)?, height.map_err(|_| Code::INVALID_VALUE)?, 1];
    let mut buffer = arguments;
    buffer.resize(size, 0);
    // As the packed form of a launch's arguments: where they are, and how long.
    let packed = [1, buffer.as_ptr() as usize, 2, &raw const size as usize, 0];
    let shape = Shape { blocks, threads, dynamic_shared, cooperative: false, cluster: [1; 3] };
    let extra = Input::from_raw(packed.as_ptr().cast::<*const c_void>());
    let grid = launch::prepare(hfunction, shape, Input::from_raw(std::ptr::null()), extra)?;
    launch::submit(&stream::find(hstream, NullStream::Legacy)?, grid)
}

entries! {
    fn cuFuncSetBlockShape(hfunction: Handle, x: i32, y: i32, z: i32) {
        let mut threads = [0; 3];
        for (to, given) in threads.iter_mut().zip([x, y, z]) {
            *to = u32::try_from(given).ok().filter(|n| *n > 0).ok_or(Code::INVALID_VALUE)?;
        }
        configure(hfunction, |configured| {
            configured.threads = threads;
            Ok(())
        })
    }

    fn cuFuncSetSharedSize(hfunction: Handle, bytes: u32) {
        configure(hfunction, |configured| {
            configured.dynamic_shared = bytes;
            Ok(())
        })
    }

    fn cuParamSetSize(hfunction: Handle, bytes: u32) {
        configure(hfunction, |configured| {
            configured.size = bytes as usize;
            Ok(())
        })
    }

    fn cuParamSeti(hfunction: Handle, offset: i32, value: u32) {
        set_argument(hfunction, offset, &value.to_ne_bytes())
    }

    fn cuParamSetf(hfunction: Handle, offset: i32, value: f32) {
        set_argument(hfunction, offset, &value.to_ne_bytes())
    }

    fn cuParamSetv(hfunction: Handle, offset: i32, at: *const u8, bytes: u32) {
        if at.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        set_argument(hfunction, offset, &Bytes { at, length: bytes as usize }.to_vec())
    }

    fn cuLaunch(hfunction: Handle) {
        grid(hfunction, 1, 1, 0)
    }

    fn cuLaunchGrid(hfunction: Handle, width: i32, height: i32) {
        grid(hfunction, width, height, 0)
    }

    fn cuLaunchGridAsync(hfunction: Handle, width: i32, height: i32, hstream: Handle) {
        grid(hfunction, width, height, hstream)
    }

    fn cuLaunchCooperativeKernelMultiDevice(list: Input<LaunchParameters>, devices: u32, flags: u32) {
        if devices == 0 || flags > 3 {
            return Err(Code::INVALID_VALUE);
        }
        for one in list.all(devices as usize)? {
            let LaunchParameters { function, blocks, threads, dynamic_shared, stream, values } = one;
            let shape = Shape { blocks, threads, dynamic_shared, cooperative: true, cluster: [1; 3] };
            let grid = launch::prepare(function, shape, values, Input::from_raw(std::ptr::null()))?;
            launch::submit(&stream::find(stream, NullStream::Legacy)?, grid)?;
        }
        Ok(())
    }
}
