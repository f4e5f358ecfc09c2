//! Virtual memory: address ranges, physical allocations, mappings, multicast objects.
//!
//! A replay reserves the recorded address ranges itself. Physical allocations and mappings, including
//! aliases, are made by the recorded calls. Multicast memory is not placed.

#[macro_export]
macro_rules! memory_virtual {
    ($($with:tt)+) => {
        $($with)+! {
            "memory_virtual";
            // Address ranges.
            cuMemAddressReserve(ptr: *mut CUdeviceptr = Create(One), size: usize, alignment: usize, addr: CUdeviceptr,
                flags: u64) allocate emulate => Allocate { kind: Addresses, bytes: Of(size) };
            cuMemAddressFree(ptr: CUdeviceptr = Destroy, size: usize) free emulate => Free(Addresses);

            // Physical allocations.
            cuMemCreate(handle: *mut CUmemGenericAllocationHandle = Create(One), size: usize,
                prop: *const CUmemAllocationProp = In(One), flags: u64) allocate
                => Allocate { kind: Physical, bytes: Of(size) };
            cuMemRetainAllocationHandle(handle: *mut CUmemGenericAllocationHandle = Create(One),
                addr: *mut c_void = Address) allocate => RetainPhysical;
            cuMemRelease(handle: CUmemGenericAllocationHandle = Destroy) free => Free(Physical);
            cuMemGetAllocationGranularity(granularity: *mut usize = Volatile(One),
                prop: *const CUmemAllocationProp = In(One), option: CUmemAllocationGranularity_flags) query;
            cuMemGetAllocationPropertiesFromHandle(prop: *mut CUmemAllocationProp = Out(One),
                handle: CUmemGenericAllocationHandle) query skip;

            // Mappings. The range stays reserved when a mapping ends.
            cuMemMap(ptr: CUdeviceptr, size: usize, offset: usize, handle: CUmemGenericAllocationHandle, flags: u64)
                allocate => Map { at: ptr, bytes: size };
            cuMemUnmap(ptr: CUdeviceptr, size: usize) free => Unmap { at: ptr, bytes: size };
            cuMemSetAccess(ptr: CUdeviceptr, size: usize, desc: *const CUmemAccessDesc = In(Len(count)), count: usize)
                state => SetAccess;
            cuMemGetAccess(flags: *mut u64 = Out(One), location: *const CUmemLocation = In(One), ptr: CUdeviceptr)
                query skip;
            cuMemMapArrayAsync(mapInfoList: *mut CUarrayMapInfo = In(Len(count)), count: u32, hStream: CUstream)
                submit | cuMemMapArrayAsync_ptsz => Submit(MapResource);

            // Multicast objects. They have no memory of their own: it is bound to them.
            cuMulticastCreate(mcHandle: *mut CUmemGenericAllocationHandle = Create(One),
                prop: *const CUmulticastObjectProp = In(One)) allocate refuse
                => Allocate { kind: Physical, bytes: Untold };
            cuMulticastAddDevice(mcHandle: CUmemGenericAllocationHandle, dev: CUdevice) state refuse;
            cuMulticastBindMem_v2(mcHandle: CUmemGenericAllocationHandle, dev: CUdevice, mcOffset: usize,
                memHandle: CUmemGenericAllocationHandle, memOffset: usize, size: usize, flags: u64) state refuse;
            cuMulticastBindMem(mcHandle: CUmemGenericAllocationHandle, mcOffset: usize,
                memHandle: CUmemGenericAllocationHandle, memOffset: usize, size: usize, flags: u64) state refuse;
            cuMulticastBindAddr_v2(mcHandle: CUmemGenericAllocationHandle, dev: CUdevice, mcOffset: usize,
                memptr: CUdeviceptr, size: usize, flags: u64) state refuse;
            cuMulticastBindAddr(mcHandle: CUmemGenericAllocationHandle, mcOffset: usize, memptr: CUdeviceptr,
                size: usize, flags: u64) state refuse;
            cuMulticastUnbind(mcHandle: CUmemGenericAllocationHandle, dev: CUdevice, mcOffset: usize, size: usize)
                state refuse;
            cuMulticastGetGranularity(granularity: *mut usize = Volatile(One),
                prop: *const CUmulticastObjectProp = In(One), option: CUmulticastGranularity_flags) query;

            // Other processes and devices.
            cuMemExportToShareableHandle(
                shareableHandle: *mut c_void = AttributeOut(handleType, EXPORTED_HANDLES),
                handle: CUmemGenericAllocationHandle, handleType: CUmemAllocationHandleType, flags: u64) query;
            cuMemImportFromShareableHandle(handle: *mut CUmemGenericAllocationHandle = Create(One),
                osHandle: *mut c_void = AttributeIn(shHandleType, EXPORTED_HANDLES),
                shHandleType: CUmemAllocationHandleType) allocate => Allocate { kind: Physical, bytes: Untold };
            cuMemGetHandleForAddressRange(handle: *mut c_void = AttributeOut(handleType, RANGE_HANDLES),
                dptr: CUdeviceptr, size: usize, handleType: CUmemRangeHandleType,
                flags: u64 = CUmemRangeFlags::BITS) query refuse;
        }
    };
}

describe_family!(memory_virtual);
