//! Logical endpoints: memory of other devices and processes over a fabric, named by numbers that kernels use.
//! A trace does not hold the memory at the other end, so a replay refuses all calls that make or use one.

#[macro_export]
macro_rules! endpoint {
    ($($with:tt)+) => {
        $($with)+! {
            "endpoint";
            cuLogicalEndpointIdReserve(baseLeId: *mut CUlogicalEndpointId = Out(One), count: u32) create refuse;
            cuLogicalEndpointIdRelease(baseLeId: CUlogicalEndpointId, count: u32) destroy refuse;
            cuLogicalEndpointCreate(leId: CUlogicalEndpointId, prop: *const CUlogicalEndpointProp = In(One))
                create refuse;
            cuLogicalEndpointAddDevice(leId: CUlogicalEndpointId, dev: CUdevice) state refuse;
            cuLogicalEndpointDestroy(leId: CUlogicalEndpointId) destroy refuse;
            cuLogicalEndpointBindAddr(leId: CUlogicalEndpointId, dev: CUdevice, offset: u64,
                ptr: *mut c_void = Address, size: u64, flags: u64) state refuse;
            cuLogicalEndpointBindMem(leId: CUlogicalEndpointId, dev: CUdevice, offset: u64,
                memHandle: CUmemGenericAllocationHandle, memOffset: u64, size: u64, flags: u64) state refuse;
            cuLogicalEndpointUnbind(leId: CUlogicalEndpointId, dev: CUdevice, offset: u64, size: u64) state refuse;
            cuLogicalEndpointExport(handle: *mut c_void = AttributeOut(handleType, ENDPOINT_HANDLES),
                leId: CUlogicalEndpointId, handleType: CUlogicalEndpointIpcHandleType) query refuse;
            cuLogicalEndpointImport(leId: CUlogicalEndpointId,
                handle: *const c_void = AttributeIn(handleType, ENDPOINT_HANDLES),
                handleType: CUlogicalEndpointIpcHandleType) create refuse;
            cuLogicalEndpointGetLimits(bindAlignment: *mut u64 = Volatile(One), maxSize: *mut u64 = Volatile(One),
                prop: *const CUlogicalEndpointProp = In(One)) query skip;
            cuLogicalEndpointQuery(leId: CUlogicalEndpointId, count: u32, queryStatus: *mut i32 = Volatile(One))
                query skip;

            // Between memory here and an endpoint, or two of either.
            cuFabricCpyBatchAsync(numOps: usize, opList: *mut CUDA_FABRIC_COPY_BATCH_OP = In(Len(numOps)), flags: u64,
                hStream: CUstream) submit refuse | cuFabricCpyBatchAsync_ptsz => Submit(Copy);
        }
    };
}

describe_family!(endpoint);
