//! Structures of the interface, declared from cuda.h of CUDA 13.0.

use std::ffi::c_void;

use super::code::{Code, Result};
use crate::abi::{DevicePointer, Handle, HostFunction, Input, Opaque};

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memcpy2d {
    pub src_x: usize,
    pub src_y: usize,
    pub src_type: u32,
    pub src_host: usize,
    pub src_device: DevicePointer,
    pub src_array: Handle,
    pub src_pitch: usize,
    pub dst_x: usize,
    pub dst_y: usize,
    pub dst_type: u32,
    pub dst_host: usize,
    pub dst_device: DevicePointer,
    pub dst_array: Handle,
    pub dst_pitch: usize,
    pub width: usize,
    pub height: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memcpy3d {
    pub src_x: usize,
    pub src_y: usize,
    pub src_z: usize,
    pub src_lod: usize,
    pub src_type: u32,
    pub src_host: usize,
    pub src_device: DevicePointer,
    pub src_array: Handle,
    /// The peer form has a context here.
    pub src_reserved: usize,
    pub src_pitch: usize,
    pub src_height: usize,
    pub dst_x: usize,
    pub dst_y: usize,
    pub dst_z: usize,
    pub dst_lod: usize,
    pub dst_type: u32,
    pub dst_host: usize,
    pub dst_device: DevicePointer,
    pub dst_array: Handle,
    pub dst_reserved: usize,
    pub dst_pitch: usize,
    pub dst_height: usize,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayDescriptor {
    pub width: usize,
    pub height: usize,
    pub format: u32,
    pub channels: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array3dDescriptor {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
    pub format: u32,
    pub channels: u32,
    pub flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceDescriptor {
    pub kind: u32,
    /// The union: handles, addresses and sizes, eight bytes each; format and channels share one.
    pub words: [u64; 16],
    pub flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextureDescriptor {
    pub address_mode: [u32; 3],
    pub filter_mode: u32,
    pub flags: u32,
    pub max_anisotropy: u32,
    pub mipmap_filter: u32,
    pub mipmap_bias: f32,
    pub mipmap_clamp: [f32; 2],
    pub border: [f32; 4],
    pub reserved: [i32; 12],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewDescriptor {
    pub format: u32,
    pub size: [usize; 3],
    pub levels: [u32; 2],
    pub layers: [u32; 2],
    pub reserved: [u32; 16],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub kind: u32,
    pub id: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationProperties {
    pub kind: u32,
    pub handle_types: u32,
    pub location: Location,
    pub windows: usize,
    pub flags: [u8; 8],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessDescriptor {
    pub location: Location,
    pub flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolProperties {
    pub kind: u32,
    pub handle_types: u32,
    pub location: Location,
    pub windows: usize,
    pub max_size: usize,
    pub usage: u16,
    pub reserved: [u8; 54],
}

/// CUmemcpyAttributes: the time at which the source is read, and hints for the locations of both sides.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CopyAttributes {
    order: u32,
    _hints: [Location; 2],
    flags: u32,
}

impl CopyAttributes {
    pub(crate) fn new(order: u32, flags: u32) -> Self {
        Self { order, _hints: [Location { kind: 0, id: 0 }; 2], flags }
    }

    /// The source is read in the stream's order, during the call, or at any time; that copies overlap with
    /// kernels is but preferred.
    pub(crate) fn check(&self) -> Result {
        if (1..=3).contains(&self.order) && self.flags <= 1 { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AllocationNodeParameters {
    pub pool: PoolProperties,
    pub access: Input<AccessDescriptor>,
    pub access_count: usize,
    pub bytes: usize,
    /// Set by the driver.
    pub at: DevicePointer,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchAttribute {
    pub id: u32,
    pub pad: u32,
    pub value: [u32; 16],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchConfig {
    pub blocks: [u32; 3],
    pub threads: [u32; 3],
    pub dynamic_shared: u32,
    pub stream: Handle,
    pub attributes: Input<LaunchAttribute>,
    pub count: u32,
}

/// The second form; the first ends before `kernel`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelNodeParameters {
    pub function: Handle,
    pub blocks: [u32; 3],
    pub threads: [u32; 3],
    pub dynamic_shared: u32,
    pub values: Input<*const c_void>,
    pub extra: Input<*const c_void>,
    pub kernel: Handle,
    pub context: Handle,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelNodeParametersV1 {
    pub function: Handle,
    pub blocks: [u32; 3],
    pub threads: [u32; 3],
    pub dynamic_shared: u32,
    pub values: Input<*const c_void>,
    pub extra: Input<*const c_void>,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemsetNodeParameters {
    pub at: DevicePointer,
    pub pitch: usize,
    pub value: u32,
    pub element: u32,
    pub width: usize,
    pub height: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct HostNodeParameters {
    pub function: Option<HostFunction>,
    pub data: Opaque,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct InstantiateParameters {
    pub flags: u64,
    pub upload: Handle,
    pub error_node: Handle,
    pub result: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateResult {
    pub result: u32,
    pub error_node: Handle,
    pub error_from: Handle,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ContextParameters {
    pub affinity: *mut c_void,
    pub affinity_count: i32,
    pub cig: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceProperties {
    pub max_threads: i32,
    pub max_block: [i32; 3],
    pub max_grid: [i32; 3],
    pub shared_per_block: i32,
    pub constant_memory: i32,
    pub warp_size: i32,
    pub max_pitch: i32,
    pub registers: i32,
    pub clock_rate: i32,
    pub texture_alignment: i32,
}
