//! Older forms of functions. Those with 32-bit sizes also work in contexts that were made in the old form.
//! (NVIDIA's driver 580 has them, but no such context: cuCtxCreate returns out of memory.)

use std::ffi::c_void;

use super::declare::entries;
use crate::abi::code::{Code, Result};
use crate::abi::structs::{Array3dDescriptor, ArrayDescriptor, Memcpy2d, Memcpy3d};
use crate::abi::{Handle, Input, NullStream, Out};
use crate::base::device;
use crate::base::state::knobs;
use crate::entry::memory::copy::{array_side, host, later, now, three, two};
use crate::memory::allocate::balance;
use crate::memory::copy::Copy;
use crate::objects::{array, teardown};
use crate::streams::{context, event, stream};

/// CUDA 3.1 had 32-bit sizes and addresses.
const VERSION: u32 = 3010;

fn small() -> Result {
    if context::usable()?.api_version == VERSION { Ok(()) } else { Err(Code::INVALID_CONTEXT) }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct SmallArray {
    width: u32,
    height: u32,
    format: u32,
    channels: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct SmallArray3d {
    width: u32,
    height: u32,
    depth: u32,
    format: u32,
    channels: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct SmallCopy2d {
    src_x: u32,
    src_y: u32,
    src_type: u32,
    src_host: usize,
    src_device: u32,
    src_array: Handle,
    src_pitch: u32,
    dst_x: u32,
    dst_y: u32,
    dst_type: u32,
    dst_host: usize,
    dst_device: u32,
    dst_array: Handle,
    dst_pitch: u32,
    width: u32,
    height: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct SmallSide3d {
    x: u32,
    y: u32,
    z: u32,
    lod: u32,
    kind: u32,
    host: usize,
    device: u32,
    array: Handle,
    reserved: usize,
    pitch: u32,
    height: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct SmallCopy3d {
    from: SmallSide3d,
    to: SmallSide3d,
    width: u32,
    height: u32,
    depth: u32,
}

fn wide(given: Input<SmallCopy2d>) -> Result<Copy> {
    small()?;
    let m = given.get()?;
    two(Memcpy2d {
        src_x: m.src_x as usize,
        src_y: m.src_y as usize,
        src_type: m.src_type,
        src_host: m.src_host,
        src_device: m.src_device.into(),
        src_array: m.src_array,
        src_pitch: m.src_pitch as usize,
        dst_x: m.dst_x as usize,
        dst_y: m.dst_y as usize,
        dst_type: m.dst_type,
        dst_host: m.dst_host,
        dst_device: m.dst_device.into(),
        dst_array: m.dst_array,
        dst_pitch: m.dst_pitch as usize,
        width: m.width as usize,
        height: m.height as usize,
    })
}

fn wide_box(given: Input<SmallCopy3d>) -> Result<Copy> {
    small()?;
    let SmallCopy3d { from, to, width, height, depth } = given.get()?;
    three(&Memcpy3d {
        src_x: from.x as usize,
        src_y: from.y as usize,
        src_z: from.z as usize,
        src_lod: from.lod as usize,
        src_type: from.kind,
        src_host: from.host,
        src_device: from.device.into(),
        src_array: from.array,
        src_reserved: 0,
        src_pitch: from.pitch as usize,
        src_height: from.height as usize,
        dst_x: to.x as usize,
        dst_y: to.y as usize,
        dst_z: to.z as usize,
        dst_lod: to.lod as usize,
        dst_type: to.kind,
        dst_host: to.host,
        dst_device: to.device.into(),
        dst_array: to.array,
        dst_reserved: 0,
        dst_pitch: to.pitch as usize,
        dst_height: to.height as usize,
        width: width as usize,
        height: height as usize,
        depth: depth as usize,
    })
}

/// As much of a number as the old form has room for.
fn saturated(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

const LEGACY: NullStream = NullStream::Legacy;

entries! {
    fn cuDeviceTotalMem(bytes: Out<u32>, dev: i32) {
        device::check(dev)?;
        bytes.set(saturated(knobs().memory as u64))
    }

    fn cuCtxCreate(made: Out<Handle>, flags: u32, dev: i32) {
        if made.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        made.set(context::create(dev, flags, VERSION)?)
    }

    fn cuCtxDestroy(ctx: Handle) {
        teardown::destroy(ctx)
    }

    fn cuCtxPushCurrent(ctx: Handle) {
        context::push(ctx)
    }

    fn cuCtxPopCurrent(popped: Out<Handle>) {
        let top = context::pop()?;
        popped.set_if(top);
        Ok(())
    }

    fn cuStreamDestroy(hstream: Handle) {
        context::permitted()?;
        stream::destroy(hstream)
    }

    fn cuEventDestroy(hevent: Handle) {
        context::permitted()?;
        event::destroy(hevent)
    }

    fn cuMemGetInfo(free: Out<u32>, total: Out<u32>) {
        small()?;
        let (left, all) = balance(context::usable()?.device);
        free.set(saturated(left))?;
        total.set(saturated(all))
    }

    fn cuMemAllocHost(at: Out<*mut c_void>, bytes: u32) {
        small()?;
        crate::entry::memory::host::allocate(at, bytes as usize, 0)
    }

    fn cuArrayCreate(made: Out<Handle>, descriptor: Input<SmallArray>) {
        small()?;
        let SmallArray { width, height, format, channels } = descriptor.get()?;
        let (width, height) = (width as usize, height as usize);
        made.set(array::create(Array3dDescriptor { width, height, depth: 0, format, channels, flags: 0 })?)
    }

    fn cuArray3DCreate(made: Out<Handle>, descriptor: Input<SmallArray3d>) {
        small()?;
        let SmallArray3d { width, height, depth, format, channels, flags } = descriptor.get()?;
        let (width, height, depth) = (width as usize, height as usize, depth as usize);
        made.set(array::create(Array3dDescriptor { width, height, depth, format, channels, flags })?)
    }

    fn cuArrayGetDescriptor(descriptor: Out<SmallArray>, harray: Handle) {
        small()?;
        let ArrayDescriptor { width, height, format, channels } = array::find(harray)?.flat();
        descriptor.set(SmallArray { width: width as u32, height: height as u32, format, channels })
    }

    fn cuArray3DGetDescriptor(descriptor: Out<SmallArray3d>, harray: Handle) {
        small()?;
        let Array3dDescriptor { width, height, depth, format, channels, flags } = array::find(harray)?.descriptor;
        let (width, height, depth) = (width as u32, height as u32, depth as u32);
        descriptor.set(SmallArray3d { width, height, depth, format, channels, flags })
    }

    fn cuMemcpyHtoA(to: Handle, offset: u32, from: u64, bytes: u32) {
        small()?;
        now(Copy::linear(array_side(to, offset as usize, bytes as usize)?, host(from)?, bytes as usize), LEGACY)
    }

    fn cuMemcpyHtoAAsync(to: Handle, offset: u32, from: u64, bytes: u32, hstream: Handle) {
        small()?;
        later(Copy::linear(array_side(to, offset as usize, bytes as usize)?, host(from)?, bytes as usize), hstream, LEGACY)
    }

    fn cuMemcpyAtoH(to: u64, from: Handle, offset: u32, bytes: u32) {
        small()?;
        now(Copy::linear(host(to)?, array_side(from, offset as usize, bytes as usize)?, bytes as usize), LEGACY)
    }

    fn cuMemcpyAtoHAsync(to: u64, from: Handle, offset: u32, bytes: u32, hstream: Handle) {
        small()?;
        later(Copy::linear(host(to)?, array_side(from, offset as usize, bytes as usize)?, bytes as usize), hstream, LEGACY)
    }

    fn cuMemcpyAtoA(to: Handle, to_offset: u32, from: Handle, from_offset: u32, bytes: u32) {
        small()?;
        let size = bytes as usize;
        let (to, from) = (array_side(to, to_offset as usize, size)?, array_side(from, from_offset as usize, size)?);
        now(Copy::linear(to, from, size), LEGACY)
    }

    fn cuMemcpy2D(copy: Input<SmallCopy2d>) {
        now(wide(copy)?, LEGACY)
    }

    fn cuMemcpy2DUnaligned(copy: Input<SmallCopy2d>) {
        now(wide(copy)?, LEGACY)
    }

    fn cuMemcpy2DAsync(copy: Input<SmallCopy2d>, hstream: Handle) {
        later(wide(copy)?, hstream, LEGACY)
    }

    fn cuMemcpy3D(copy: Input<SmallCopy3d>) {
        now(wide_box(copy)?, LEGACY)
    }

    fn cuMemcpy3DAsync(copy: Input<SmallCopy3d>, hstream: Handle) {
        later(wide_box(copy)?, hstream, LEGACY)
    }
}
