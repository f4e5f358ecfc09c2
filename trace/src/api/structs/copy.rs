//! Copy descriptors. [`copies`](super::super::copies) computes the host bytes that each one covers.

use super::super::{enums::*, types::*};
use super::*;
use std::ffi::c_void;

const OPERANDS: &[(u32, &Type)] = {
    use CUmemcpy3DOperandType as O;
    &[
        (O::CU_MEMCPY_OPERAND_TYPE_POINTER.0, CUmemcpy3DOperand_op_ptr::TYPE),
        (O::CU_MEMCPY_OPERAND_TYPE_ARRAY.0, CUmemcpy3DOperand_op_array::TYPE),
    ]
};

structs! {
    CUDA_MEMCPY2D {
        srcXInBytes: usize,
        srcY: usize,
        srcMemoryType: CUmemorytype,
        srcHost: *const c_void = CopyHost(Side::Source),
        srcDevice: CUdeviceptr = CopyDevice,
        srcArray: CUarray,
        srcPitch: usize,
        dstXInBytes: usize,
        dstY: usize,
        dstMemoryType: CUmemorytype,
        dstHost: *mut c_void = CopyHost(Side::Destination),
        dstDevice: CUdeviceptr = CopyDevice,
        dstArray: CUarray,
        dstPitch: usize,
        WidthInBytes: usize,
        Height: usize,
    }
    CUDA_MEMCPY2D_v1 {
        srcXInBytes: u32,
        srcY: u32,
        srcMemoryType: CUmemorytype,
        srcHost: *const c_void = CopyHost(Side::Source),
        srcDevice: CUdeviceptr_v1 = CopyDevice,
        srcArray: CUarray,
        srcPitch: u32,
        dstXInBytes: u32,
        dstY: u32,
        dstMemoryType: CUmemorytype,
        dstHost: *mut c_void = CopyHost(Side::Destination),
        dstDevice: CUdeviceptr_v1 = CopyDevice,
        dstArray: CUarray,
        dstPitch: u32,
        WidthInBytes: u32,
        Height: u32,
    }
    // The reserved pointers of the next two must be null.
    CUDA_MEMCPY3D {
        srcXInBytes: usize,
        srcY: usize,
        srcZ: usize,
        srcLOD: usize,
        srcMemoryType: CUmemorytype,
        srcHost: *const c_void = CopyHost(Side::Source),
        srcDevice: CUdeviceptr = CopyDevice,
        srcArray: CUarray,
        reserved0: *mut c_void = Opaque,
        srcPitch: usize,
        srcHeight: usize,
        dstXInBytes: usize,
        dstY: usize,
        dstZ: usize,
        dstLOD: usize,
        dstMemoryType: CUmemorytype,
        dstHost: *mut c_void = CopyHost(Side::Destination),
        dstDevice: CUdeviceptr = CopyDevice,
        dstArray: CUarray,
        reserved1: *mut c_void = Opaque,
        dstPitch: usize,
        dstHeight: usize,
        WidthInBytes: usize,
        Height: usize,
        Depth: usize,
    }
    CUDA_MEMCPY3D_v1 {
        srcXInBytes: u32,
        srcY: u32,
        srcZ: u32,
        srcLOD: u32,
        srcMemoryType: CUmemorytype,
        srcHost: *const c_void = CopyHost(Side::Source),
        srcDevice: CUdeviceptr_v1 = CopyDevice,
        srcArray: CUarray,
        reserved0: *mut c_void = Opaque,
        srcPitch: u32,
        srcHeight: u32,
        dstXInBytes: u32,
        dstY: u32,
        dstZ: u32,
        dstLOD: u32,
        dstMemoryType: CUmemorytype,
        dstHost: *mut c_void = CopyHost(Side::Destination),
        dstDevice: CUdeviceptr_v1 = CopyDevice,
        dstArray: CUarray,
        reserved1: *mut c_void = Opaque,
        dstPitch: u32,
        dstHeight: u32,
        WidthInBytes: u32,
        Height: u32,
        Depth: u32,
    }
    CUDA_MEMCPY3D_PEER {
        srcXInBytes: usize,
        srcY: usize,
        srcZ: usize,
        srcLOD: usize,
        srcMemoryType: CUmemorytype,
        srcHost: *const c_void = CopyHost(Side::Source),
        srcDevice: CUdeviceptr = CopyDevice,
        srcArray: CUarray,
        srcContext: CUcontext,
        srcPitch: usize,
        srcHeight: usize,
        dstXInBytes: usize,
        dstY: usize,
        dstZ: usize,
        dstLOD: usize,
        dstMemoryType: CUmemorytype,
        dstHost: *mut c_void = CopyHost(Side::Destination),
        dstDevice: CUdeviceptr = CopyDevice,
        dstArray: CUarray,
        dstContext: CUcontext,
        dstPitch: usize,
        dstHeight: usize,
        WidthInBytes: usize,
        Height: usize,
        Depth: usize,
    }

    // Batches.
    CUmemcpyAttributes {
        srcAccessOrder: CUmemcpySrcAccessOrder,
        srcLocHint: CUmemLocation,
        dstLocHint: CUmemLocation,
        flags: u32 = CUmemcpyFlags::BITS,
    }
    CUoffset3D {
        x: usize,
        y: usize,
        z: usize,
    }
    CUextent3D {
        width: usize,
        height: usize,
        depth: usize,
    }
    CUmemcpy3DOperand_op_ptr {
        ptr: CUdeviceptr = CopyDevice,
        rowLength: usize,
        layerHeight: usize,
        locHint: CUmemLocation,
    }
    CUmemcpy3DOperand_op_array {
        array: CUarray,
        offset: CUoffset3D,
    }
    CUmemcpy3DOperand {
        r#type: CUmemcpy3DOperandType,
        op: [u64; 4] = Union(r#type, OPERANDS),
    }
    CUDA_MEMCPY3D_BATCH_OP {
        src: CUmemcpy3DOperand = CopyHost(Side::Source),
        dst: CUmemcpy3DOperand = CopyHost(Side::Destination),
        extent: CUextent3D,
        srcAccessOrder: CUmemcpySrcAccessOrder,
        flags: u32 = CUmemcpyFlags::BITS,
    }

    // Its pointers are device addresses. How much is written to `dst` is known on the device alone.
    CUmemDecompressParams {
        srcNumBytes: usize,
        dstNumBytes: usize,
        dstActBytes: *mut u32 = Writes(One),
        src: *const c_void = Reads(Len(srcNumBytes)),
        dst: *mut c_void = Writes(AtMost(&Len(dstNumBytes))),
        algo: CUmemDecompressAlgorithm,
        padding: [u8; 20],
    }
}
