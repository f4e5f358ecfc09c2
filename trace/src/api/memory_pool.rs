//! Stream-ordered memory and its pools.
//!
//! A replay creates pools but places the allocations itself, so the contents of a pool are not comparable.

#[macro_export]
macro_rules! memory_pool {
    ($($with:tt)+) => {
        $($with)+! {
            "memory_pool";
            // Which pool a device or a location allocates from.
            cuDeviceSetMemPool(dev: CUdevice, pool: CUmemoryPool) state;
            cuDeviceGetMemPool(pool: *mut CUmemoryPool = Out(One), dev: CUdevice) query;
            cuDeviceGetDefaultMemPool(pool_out: *mut CUmemoryPool = Out(One), dev: CUdevice) query;
            cuMemSetMemPool(location: *mut CUmemLocation = In(One), r#type: CUmemAllocationType, pool: CUmemoryPool)
                state;
            cuMemGetMemPool(pool: *mut CUmemoryPool = Out(One), location: *mut CUmemLocation = In(One),
                r#type: CUmemAllocationType) query;
            cuMemGetDefaultMemPool(pool_out: *mut CUmemoryPool = Out(One), location: *mut CUmemLocation = In(One),
                r#type: CUmemAllocationType) query;

            // Allocations.
            cuMemAllocAsync(dptr: *mut CUdeviceptr = Create(One), bytesize: usize, hStream: CUstream)
                allocate emulate | cuMemAllocAsync_ptsz => Allocate { kind: Pooled, bytes: Of(bytesize) };
            cuMemAllocFromPoolAsync(dptr: *mut CUdeviceptr = Create(One), bytesize: usize, pool: CUmemoryPool,
                hStream: CUstream) allocate emulate | cuMemAllocFromPoolAsync_ptsz
                => Allocate { kind: Pooled, bytes: Of(bytesize) };
            cuMemFreeAsync(dptr: CUdeviceptr = Destroy, hStream: CUstream) free emulate | cuMemFreeAsync_ptsz
                => Free(Pooled);

            // Pools.
            cuMemPoolCreate(pool: *mut CUmemoryPool = Create(One), poolProps: *const CUmemPoolProps = In(One)) create;
            cuMemPoolDestroy(pool: CUmemoryPool = Destroy) destroy;
            cuMemPoolTrimTo(pool: CUmemoryPool, minBytesToKeep: usize) state;
            cuMemPoolSetAttribute(pool: CUmemoryPool, attr: CUmemPool_attribute,
                value: *mut c_void = AttributeIn(attr, MEM_POOL_ATTRIBUTES)) state;
            cuMemPoolGetAttribute(pool: CUmemoryPool, attr: CUmemPool_attribute,
                value: *mut c_void = AttributeOut(attr, MEM_POOL_ATTRIBUTES)) query skip;
            cuMemPoolSetAccess(pool: CUmemoryPool, map: *const CUmemAccessDesc = In(Len(count)), count: usize)
                state;
            cuMemPoolGetAccess(flags: *mut CUmemAccess_flags = Out(One), memPool: CUmemoryPool,
                location: *mut CUmemLocation = In(One)) query skip;

            // Other processes.
            cuMemPoolExportToShareableHandle(handle_out: *mut c_void = AttributeOut(handleType, EXPORTED_HANDLES),
                pool: CUmemoryPool, handleType: CUmemAllocationHandleType, flags: u64) query refuse;
            cuMemPoolImportFromShareableHandle(pool_out: *mut CUmemoryPool = Create(One),
                handle: *mut c_void = AttributeIn(handleType, EXPORTED_HANDLES),
                handleType: CUmemAllocationHandleType, flags: u64) create refuse;
            cuMemPoolExportPointer(shareData_out: *mut CUmemPoolPtrExportData = Volatile(One), ptr: CUdeviceptr)
                query refuse;
            cuMemPoolImportPointer(ptr_out: *mut CUdeviceptr = Create(One), pool: CUmemoryPool,
                shareData: *mut CUmemPoolPtrExportData = In(One)) allocate refuse
                => Allocate { kind: Imported, bytes: Untold };
        }
    };
}

describe_family!(memory_pool);
