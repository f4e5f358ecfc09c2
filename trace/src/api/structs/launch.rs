//! Launches, their attributes, and memory operations on streams.

#![allow(non_snake_case)]

use super::super::attributes::*;
use super::super::enums::*;
use super::super::types::*;
use std::ffi::{c_char, c_void};

/// The header has one enumeration for the attributes of launches, streams and kernel nodes, under three
/// names.
pub type CUlaunchAttributeID = CUstreamAttrID;
pub type CUkernelNodeAttrID = CUlaunchAttributeID;

/// A union of 64 bytes; its live member is told by a [`CUlaunchAttributeID`] through [`LAUNCH_ATTRIBUTES`].
pub type CUlaunchAttributeValue = [u64; 8];
pub type CUkernelNodeAttrValue = CUlaunchAttributeValue;
pub type CUstreamAttrValue = CUlaunchAttributeValue;

structs! {
    CUlaunchConfig {
        gridDimX: u32,
        gridDimY: u32,
        gridDimZ: u32,
        blockDimX: u32,
        blockDimY: u32,
        blockDimZ: u32,
        sharedMemBytes: u32,
        hStream: CUstream,
        attrs: *mut CUlaunchAttribute = InOut(Len(numAttrs)),
        numAttrs: u32,
    }
    CUlaunchAttribute {
        id: CUlaunchAttributeID,
        pad: [c_char; 4],
        value: CUlaunchAttributeValue = Union(id, LAUNCH_ATTRIBUTES),
    }
    CUDA_LAUNCH_PARAMS {
        function: CUfunction,
        gridDimX: u32,
        gridDimY: u32,
        gridDimZ: u32,
        blockDimX: u32,
        blockDimY: u32,
        blockDimZ: u32,
        sharedMemBytes: u32,
        hStream: CUstream,
        kernelParams: *mut *mut c_void = Arguments(function),
    }
}

// Members of `CUlaunchAttributeValue`; those without a name in the header are named after their member.
structs! {
    CUaccessPolicyWindow {
        base_ptr: *mut c_void = Address,
        num_bytes: usize,
        hitRatio: f32,
        hitProp: CUaccessProperty,
        missProp: CUaccessProperty,
    }
    CUlaunchMemSyncDomainMap {
        default_: u8,
        remote: u8,
    }
    ClusterDim {
        x: u32,
        y: u32,
        z: u32,
    }
    ProgrammaticEvent {
        event: CUevent,
        flags: i32 = CUevent_record_flags::BITS,
        triggerAtBlockStart: i32,
    }
    LaunchCompletionEvent {
        event: CUevent,
        flags: i32 = CUevent_record_flags::BITS,
    }
    DeviceUpdatableKernelNode {
        deviceUpdatable: i32,
        devNode: CUgraphDeviceNode = Created,
    }
}

// In the header a union of structs that all begin with `operation`. Here what differs begins at byte 8, and
// `flags` is that of the two operations with nothing else to say (padding in the others).
structs! {
    CUstreamBatchMemOpParams {
        operation: CUstreamBatchMemOpType,
        flags: u32,
        op: [u64; 5] = Union(operation, STREAM_MEM_OPS),
    }
    StreamWaitValue32 {
        address: CUdeviceptr = Reads(Fixed(4)),
        value: u32,
        reserved: u32,
        flags: u32 = CUstreamWaitValue_flags::BITS,
        alias: CUdeviceptr = Filled,
    }
    StreamAtomicReduction {
        reductionOp: CUstreamAtomicReductionOpType,
        dataType: CUstreamAtomicReductionDataType,
        address: CUdeviceptr = Writes(Fixed(8)),
        value: u64,
        alias: CUdeviceptr = Filled,
    }
    StreamWaitValue64 {
        address: CUdeviceptr = Reads(Fixed(8)),
        value: u64,
        flags: u32 = CUstreamWaitValue_flags::BITS,
        alias: CUdeviceptr = Filled,
    }
    StreamWriteValue32 {
        address: CUdeviceptr = Writes(Fixed(4)),
        value: u32,
        reserved: u32,
        flags: u32 = CUstreamWriteValue_flags::BITS,
        alias: CUdeviceptr = Filled,
    }
    StreamWriteValue64 {
        address: CUdeviceptr = Writes(Fixed(8)),
        value: u64,
        flags: u32 = CUstreamWriteValue_flags::BITS,
        alias: CUdeviceptr = Filled,
    }
}

// Sizes in C, for what holds unions or is held by them.
const _: () = {
    assert!(size_of::<CUlaunchConfig>() == 56);
    assert!(size_of::<CUlaunchAttribute>() == 72);
    assert!(size_of::<CUaccessPolicyWindow>() == 32);
    assert!(size_of::<ProgrammaticEvent>() == 16);
    assert!(size_of::<LaunchCompletionEvent>() == 16);
    assert!(size_of::<DeviceUpdatableKernelNode>() == 16);
    assert!(size_of::<CUstreamBatchMemOpParams>() == 48);
    assert!(size_of::<StreamWaitValue32>() == 32);
    assert!(size_of::<StreamWaitValue64>() == 32);
};
