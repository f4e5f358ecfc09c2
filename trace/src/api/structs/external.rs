//! Objects that other programming interfaces share with CUDA: external memory and semaphores, OpenGL, EGL and
//! VDPAU objects.
//!
//! A replay cannot recreate any of them. The words are recorded for the reader of a trace.

#![allow(non_snake_case)]

use super::super::enums::*;
use super::super::types::*;
use std::ffi::c_void;

structs! {
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC {
        r#type: CUexternalMemoryHandleType,
        handle: [u64; 2] = Union(r#type, MEMORY_HANDLES),
        size: u64,
        flags: u32,
        reserved: [u32; 16],
    }
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC {
        offset: u64,
        size: u64,
        flags: u32,
        reserved: [u32; 16],
    }
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC {
        r#type: CUexternalSemaphoreHandleType,
        handle: [u64; 2] = Union(r#type, SEMAPHORE_HANDLES),
        flags: u32,
        reserved: [u32; 16],
    }
    // `frame` is three arrays or three pitched addresses, as `frameType` (a CUeglFrameType) says.
    CUeglFrame {
        frame: [usize; 3],
        width: u32,
        height: u32,
        depth: u32,
        pitch: u32,
        planeCount: u32,
        numChannels: u32,
        frameType: u32,
        eglColorFormat: u32,
        cuFormat: CUarray_format,
    }
}

/// Members of the handle unions that exist on Linux: a file descriptor, or an object of NvSci.
const MEMORY_HANDLES: &[(u32, &Type)] = &[
    (CUexternalMemoryHandleType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD.0, i32::TYPE),
    (CUexternalMemoryHandleType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF.0, usize::TYPE),
];
const SEMAPHORE_HANDLES: &[(u32, &Type)] = &[
    (CUexternalSemaphoreHandleType::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD.0, i32::TYPE),
    (CUexternalSemaphoreHandleType::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_NVSCISYNC.0, usize::TYPE),
    (CUexternalSemaphoreHandleType::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD.0, i32::TYPE),
];

macro_rules! words {
    ($($name:ident($repr:ty);)*) => {$(
        /// A name from another programming interface.
        #[repr(transparent)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(pub $repr);

        impl Typed for $name {
            const TYPE: &'static Type =
                &Type { name: stringify!($name), size: size_of::<$repr>() as u32, form: Form::Unsigned };
        }
    )*};
}

words! {
    EGLImageKHR(usize);
    EGLStreamKHR(usize);
    VdpDevice(u32);
    VdpVideoSurface(u32);
    VdpOutputSurface(u32);
}

/// The function (not a pointer to it) by which VDPAU finds its entry points.
#[repr(transparent)]
pub struct VdpGetProcAddress(c_void);

impl Typed for VdpGetProcAddress {
    const TYPE: &'static Type = &Type { name: "VdpGetProcAddress", size: 1, form: Form::Void };
}
