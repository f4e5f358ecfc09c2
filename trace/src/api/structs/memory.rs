//! Memory: sharing, placement, pools and virtual memory.

use super::super::{enums::*, types::*};
use super::*;
use std::ffi::{c_char, c_void};

/// What `cuPointerGetAttribute` writes. Widths measured on driver 580; booleans are 4 bytes.
pub const POINTER_ATTRIBUTES: &[(u32, &Type)] = {
    use CUpointer_attribute as A;
    &[
        (A::CU_POINTER_ATTRIBUTE_CONTEXT.0, CUcontext::TYPE),
        (A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE.0, CUmemorytype::TYPE),
        (A::CU_POINTER_ATTRIBUTE_DEVICE_POINTER.0, CUdeviceptr::TYPE),
        (A::CU_POINTER_ATTRIBUTE_HOST_POINTER.0, CUdeviceptr::TYPE),
        (A::CU_POINTER_ATTRIBUTE_P2P_TOKENS.0, CUDA_POINTER_ATTRIBUTE_P2P_TOKENS::TYPE),
        (A::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.0, u32::TYPE),
        (A::CU_POINTER_ATTRIBUTE_BUFFER_ID.0, u64::TYPE),
        (A::CU_POINTER_ATTRIBUTE_IS_MANAGED.0, u32::TYPE),
        (A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL.0, i32::TYPE),
        (A::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE.0, u32::TYPE),
        (A::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR.0, CUdeviceptr::TYPE),
        (A::CU_POINTER_ATTRIBUTE_RANGE_SIZE.0, usize::TYPE),
        (A::CU_POINTER_ATTRIBUTE_MAPPED.0, u32::TYPE),
        (A::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES.0, u64::TYPE),
        (A::CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE.0, u32::TYPE),
        (A::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS.0, CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS::TYPE),
        (A::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE.0, CUmemoryPool::TYPE),
        (A::CU_POINTER_ATTRIBUTE_MAPPING_SIZE.0, usize::TYPE),
        (A::CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR.0, CUdeviceptr::TYPE),
        (A::CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID.0, u64::TYPE),
        (A::CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE.0, u32::TYPE),
        (A::CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL.0, i32::TYPE),
    ]
};

/// What `cuMemRangeGetAttributes` writes. `ACCESSED_BY` is as many device ordinals as the caller has room
/// for; the first is described.
pub const MEM_RANGE_ATTRIBUTES: &[(u32, &Type)] = {
    use CUmem_range_attribute as A;
    &[
        (A::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY.0, i32::TYPE),
        (A::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION.0, i32::TYPE),
        (A::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY.0, i32::TYPE),
        (A::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION.0, i32::TYPE),
        (A::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE.0, CUmemLocationType::TYPE),
        (A::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID.0, i32::TYPE),
        (A::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE.0, CUmemLocationType::TYPE),
        (A::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID.0, i32::TYPE),
    ]
};

/// Attributes of memory pools, read and written.
pub const MEM_POOL_ATTRIBUTES: &[(u32, &Type)] = {
    use CUmemPool_attribute as A;
    &[
        (A::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES.0, i32::TYPE),
        (A::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC.0, i32::TYPE),
        (A::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES.0, i32::TYPE),
        (A::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD.0, u64::TYPE),
        (A::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT.0, u64::TYPE),
        (A::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH.0, u64::TYPE),
        (A::CU_MEMPOOL_ATTR_USED_MEM_CURRENT.0, u64::TYPE),
        (A::CU_MEMPOOL_ATTR_USED_MEM_HIGH.0, u64::TYPE),
        (A::CU_MEMPOOL_ATTR_ALLOCATION_TYPE.0, CUmemAllocationType::TYPE),
        (A::CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES.0, CUmemAllocationHandleType::TYPE),
        (A::CU_MEMPOOL_ATTR_LOCATION_ID.0, i32::TYPE),
        (A::CU_MEMPOOL_ATTR_LOCATION_TYPE.0, CUmemLocationType::TYPE),
        (A::CU_MEMPOOL_ATTR_MAX_POOL_SIZE.0, u64::TYPE),
        (A::CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED.0, i32::TYPE),
        (A::CU_MEMPOOL_ATTR_LOCALITY_DOMAIN_ID.0, i32::TYPE),
    ]
};

/// What an allocation or a pool is exported as. A file descriptor is made and used like a handle.
pub const EXPORTED_HANDLES: &[(u32, &Type)] = {
    use CUmemAllocationHandleType as H;
    &[
        (H::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.0, CUshareableHandle::TYPE),
        (H::CU_MEM_HANDLE_TYPE_FABRIC.0, CUmemFabricHandle::TYPE),
    ]
};

/// What an address range is exported as.
pub const RANGE_HANDLES: &[(u32, &Type)] = &[(CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD.0, i32::TYPE)];

/// What `cuMemMapArrayAsync` maps to.
const MAPPED_RESOURCES: &[(u32, &Type)] = {
    use CUresourcetype as R;
    &[(R::CU_RESOURCE_TYPE_ARRAY.0, CUarray::TYPE), (R::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY.0, CUmipmappedArray::TYPE)]
};

const SPARSE_SUBRESOURCES: &[(u32, &Type)] = {
    use CUarraySparseSubresourceType as S;
    &[
        (S::CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL.0, CUarrayMapInfo_subresource_sparseLevel::TYPE),
        (S::CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL.0, CUarrayMapInfo_subresource_miptail::TYPE),
    ]
};

structs! {
    // Sharing between processes.
    CUipcEventHandle {
        reserved: [c_char; 64],
    }
    CUipcMemHandle {
        reserved: [c_char; 64],
    }
    CUmemFabricHandle {
        data: [u8; 64],
    }
    CUmemPoolPtrExportData {
        reserved: [u8; 64],
    }

    // Where memory is and who may touch it.
    CUmemLocation {
        r#type: CUmemLocationType,
        id: i32,
    }
    CUmemAccessDesc {
        location: CUmemLocation,
        flags: CUmemAccess_flags,
    }

    // Pools. The security attributes mean something on Windows alone.
    CUmemPoolProps {
        allocType: CUmemAllocationType,
        handleTypes: CUmemAllocationHandleType,
        location: CUmemLocation,
        win32SecurityAttributes: *mut c_void = Opaque,
        maxSize: usize,
        usage: u16 = CUmemPoolCreate_usage::BITS,
        gpuDirectRDMACapable: u8,
        reserved: [u8; 53],
    }

    // Virtual memory. The metadata mean something on Windows alone.
    CUmemAllocationProp_allocFlags {
        compressionType: u8 = Bits(CUmemAllocationCompType::ENUM),
        gpuDirectRDMACapable: u8,
        usage: u16 = CUmemCreate_usage::BITS,
        reserved: [u8; 4],
    }
    CUmemAllocationProp {
        r#type: CUmemAllocationType,
        requestedHandleTypes: CUmemAllocationHandleType,
        location: CUmemLocation,
        win32HandleMetaData: *mut c_void = Opaque,
        allocFlags: CUmemAllocationProp_allocFlags,
    }
    CUmulticastObjectProp {
        numDevices: u32,
        size: usize,
        handleTypes: u64 = CUmemAllocationHandleType::BITS,
        flags: u64,
    }

    // Memory behind sparse arrays.
    CUarrayMapInfo_subresource_sparseLevel {
        level: u32,
        layer: u32,
        offsetX: u32,
        offsetY: u32,
        offsetZ: u32,
        extentWidth: u32,
        extentHeight: u32,
        extentDepth: u32,
    }
    CUarrayMapInfo_subresource_miptail {
        layer: u32,
        offset: u64,
        size: u64,
    }
    CUarrayMapInfo {
        resourceType: CUresourcetype,
        resource: [u64; 1] = Union(resourceType, MAPPED_RESOURCES),
        subresourceType: CUarraySparseSubresourceType,
        subresource: [u64; 4] = Union(subresourceType, SPARSE_SUBRESOURCES),
        memOperationType: CUmemOperationType,
        memHandleType: CUmemHandleType,
        memHandle: CUmemGenericAllocationHandle,
        offset: u64,
        deviceBitMask: u32,
        flags: u32,
        reserved: [u32; 2],
    }
}
