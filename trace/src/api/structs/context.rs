//! Devices, contexts, libraries and checkpoints.

#![allow(non_snake_case)]

use super::super::enums::*;
use super::super::types::*;
use std::ffi::{c_char, c_void};

structs! {
    CUuuid {
        bytes: [c_char; 16],
    }
    CUdevprop {
        maxThreadsPerBlock: i32,
        maxThreadsDim: [i32; 3],
        maxGridSize: [i32; 3],
        sharedMemPerBlock: i32,
        totalConstantMemory: i32,
        SIMDWidth: i32,
        memPitch: i32,
        regsPerBlock: i32,
        clockRate: i32,
        textureAlign: i32,
    }
    CUexecAffinitySmCount {
        val: u32,
    }
    // The union `param` has this one member.
    CUexecAffinityParam {
        r#type: CUexecAffinityType,
        param: CUexecAffinitySmCount,
    }
    // `sharedData` is a Direct3D queue or a blob of the graphics driver, neither of which outlives the
    // process.
    CUctxCigParam {
        sharedDataType: CUcigDataType,
        sharedData: *mut c_void = Opaque,
    }
    // A command list of Direct3D, or a command buffer of Vulkan.
    CUstreamCigParam {
        streamSharedDataType: CUstreamCigDataType,
        streamSharedData: *mut c_void = Opaque,
    }
    CUstreamCigCaptureParams {
        streamCigParams: *mut CUstreamCigParam = In(One),
    }
    CUctxCreateParams {
        execAffinityParams: *mut CUexecAffinityParam = In(Len(numExecAffinityParams)),
        numExecAffinityParams: i32,
        cigParams: *mut CUctxCigParam = In(One),
    }
    CUdevSmResource {
        smCount: u32,
        minSmPartitionSize: u32,
        smCoscheduledAlignment: u32,
        flags: u32 = CUdevSmResourceGroup_flags::BITS,
        localityDomainId: u32,
    }
    CUdevWorkqueueConfigResource {
        device: CUdevice,
        wqConcurrencyLimit: u32,
        sharingScope: CUdevWorkqueueConfigScope,
    }
    CUdevWorkqueueResource {
        reserved: [u8; 40],
    }
    CU_DEV_SM_RESOURCE_GROUP_PARAMS {
        smCount: u32,
        coscheduledSmCount: u32,
        preferredCoscheduledSmCount: u32,
        flags: u32 = CUdevSmResourceGroup_flags::BITS,
        localityDomainId: u32,
        reserved: [u32; 11],
    }
    // The padding carries the driver's own state from the call that made the resource to the one that takes
    // it. Before CUDA 13.5 the link was padding, too, and may be anything.
    CUdevResource {
        r#type: CUdevResourceType,
        _internal_padding: [u8; 92],
        sm: [u64; 5] = Union(r#type, DEVICE_RESOURCES),
        nextResource: *mut c_void = Opaque,
    }
    // Addresses of host functions and data, kept by the driver for kernels that call back into the host.
    CUlibraryHostUniversalFunctionAndDataTable {
        functionTable: *mut c_void = In(Len(functionWindowSize)),
        functionWindowSize: usize,
        dataTable: *mut c_void = In(Len(dataWindowSize)),
        dataWindowSize: usize,
    }
    CUcheckpointLockArgs {
        timeoutMs: u32,
        reserved0: u32,
        reserved1: [u64; 7],
    }
    // The driver hands out memory of its own, with device memory in it that the application is to save.
    CUcheckpointCustomStoragePerDeviceData {
        devPtr: CUdeviceptr,
        size: usize,
        stream: CUstream,
    }
    CUcheckpointCustomStorageInfo {
        handle: CUcheckpointOperationHandle,
        perDeviceData: *mut CUcheckpointCustomStoragePerDeviceData = Owned(Len(deviceCount)),
        deviceCount: u32,
    }
    CUcheckpointCheckpointArgs {
        customStorageInfo_out: *mut *mut CUcheckpointCustomStorageInfo = Owned(One),
        reserved: [c_char; 56],
    }
    CUcheckpointGpuPair {
        oldUuid: CUuuid,
        newUuid: CUuuid,
    }
    CUcheckpointRestoreArgs {
        gpuPairs: *mut CUcheckpointGpuPair = In(Len(gpuPairsCount)),
        gpuPairsCount: u32,
        padding0: u32,
        customStorageInfo_out: *mut *mut CUcheckpointCustomStorageInfo = Owned(One),
        reserved: [c_char; 40],
    }
    CUcheckpointUnlockArgs {
        reserved: [u64; 8],
    }
    CUDA_POINTER_ATTRIBUTE_P2P_TOKENS {
        p2pToken: u64,
        vaSpaceToken: u32,
    }
}

/// A position in the driver's ring of log messages.
pub type CUlogIterator = u32;

const DEVICE_RESOURCES: &[(u32, &Type)] = &[
    (CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM.0, CUdevSmResource::TYPE),
    (CUdevResourceType::CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG.0, CUdevWorkqueueConfigResource::TYPE),
    (CUdevResourceType::CU_DEV_RESOURCE_TYPE_WORKQUEUE.0, CUdevWorkqueueResource::TYPE),
];
