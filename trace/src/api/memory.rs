//! Memory: device, pinned and managed allocations, queries about pointers, and sharing with other processes.
//!
//! A replay places memory at its recorded addresses by other calls, so queries about allocations would
//! describe the replay's own placement: they are skipped, and so is advice on managed memory. 32-bit
//! addresses, used by functions older than their `_v2` forms, are not placed: every call that takes or
//! returns one is refused.

#[macro_export]
macro_rules! memory {
    ($($with:tt)+) => {
        $($with)+! {
            "memory";
            cuMemGetInfo_v2(free: *mut usize = Volatile(One), total: *mut usize = Volatile(One)) query;
            cuMemGetInfo(free: *mut u32 = Volatile(One), total: *mut u32 = Volatile(One)) query;

            // Device memory.
            cuMemAlloc_v2(dptr: *mut CUdeviceptr = Create(One), bytesize: usize) allocate emulate
                => Allocate { kind: Device, bytes: Of(bytesize) };
            cuMemAlloc(dptr: *mut CUdeviceptr_v1 = Create(One), bytesize: u32) allocate refuse
                => Allocate { kind: Device, bytes: Of(bytesize) };
            cuMemAllocPitch_v2(dptr: *mut CUdeviceptr = Create(One), pPitch: *mut usize = Out(One),
                WidthInBytes: usize, Height: usize, ElementSizeBytes: u32) allocate emulate
                => Allocate { kind: Device, bytes: Rows { pitch: pPitch, width: WidthInBytes, rows: Height } };
            cuMemAllocPitch(dptr: *mut CUdeviceptr_v1 = Create(One), pPitch: *mut u32 = Out(One),
                WidthInBytes: u32, Height: u32, ElementSizeBytes: u32) allocate refuse
                => Allocate { kind: Device, bytes: Rows { pitch: pPitch, width: WidthInBytes, rows: Height } };
            cuMemFree_v2(dptr: CUdeviceptr = Destroy) free emulate => Free(Device);
            cuMemFree(dptr: CUdeviceptr_v1 = Destroy) free refuse => Free(Device);
            cuMemGetAddressRange_v2(pbase: *mut CUdeviceptr = Out(One), psize: *mut usize = Out(One),
                dptr: CUdeviceptr) query skip;
            cuMemGetAddressRange(pbase: *mut CUdeviceptr_v1 = Out(One), psize: *mut u32 = Out(One),
                dptr: CUdeviceptr_v1) query skip;

            // One location for each region of this size; the first is described.
            cuMemGetLocationInfo(ptr: CUdeviceptr, size: usize, summaryGranularity: usize, samplingGranularity: usize,
                location_out: *mut CUmemLocation = Volatile(One)) query skip;

            // Pinned host memory.
            cuMemAllocHost_v2(pp: *mut *mut c_void = HostAlloc(Len(bytesize)), bytesize: usize) allocate emulate
                => Allocate { kind: Pinned, bytes: Of(bytesize) };
            cuMemAllocHost(pp: *mut *mut c_void = HostAlloc(Len(bytesize)), bytesize: u32) allocate emulate
                => Allocate { kind: Pinned, bytes: Of(bytesize) };
            cuMemHostAlloc(pp: *mut *mut c_void = HostAlloc(Len(bytesize)), bytesize: usize,
                Flags: u32 = CUmemHostAlloc_flags::BITS) allocate emulate
                => Allocate { kind: Pinned, bytes: Of(bytesize) };
            cuMemFreeHost(p: *mut c_void = Destroy) free emulate => Free(Pinned);
            cuMemHostRegister_v2(p: *mut c_void = HostAddress, bytesize: usize,
                Flags: u32 = CUmemHostRegister_flags::BITS) allocate emulate
                => Allocate { kind: Registered, bytes: Of(bytesize) };
            cuMemHostRegister(p: *mut c_void = HostAddress, bytesize: usize,
                Flags: u32 = CUmemHostRegister_flags::BITS) allocate emulate
                => Allocate { kind: Registered, bytes: Of(bytesize) };
            cuMemHostUnregister(p: *mut c_void = Destroy) free emulate => Free(Registered);
            cuMemHostGetDevicePointer_v2(pdptr: *mut CUdeviceptr = Out(One), p: *mut c_void = HostAddress,
                Flags: u32) query;
            cuMemHostGetDevicePointer(pdptr: *mut CUdeviceptr_v1 = Out(One), p: *mut c_void = HostAddress,
                Flags: u32) query refuse;
            cuMemHostGetFlags(pFlags: *mut u32 = Out(One), p: *mut c_void = HostAddress) query skip;

            // Managed memory.
            cuMemAllocManaged(dptr: *mut CUdeviceptr = Create(One), bytesize: usize,
                flags: u32 = CUmemAttach_flags::BITS) allocate emulate
                => Allocate { kind: Managed, bytes: Of(bytesize) };
            cuMemAdvise_v2(devPtr: CUdeviceptr, count: usize, advice: CUmem_advise, location: CUmemLocation)
                state skip;
            cuMemAdvise(devPtr: CUdeviceptr, count: usize, advice: CUmem_advise, device: CUdevice) state skip;
            cuMemRangeGetAttribute(data: *mut c_void = Out(Len(dataSize)), dataSize: usize,
                attribute: CUmem_range_attribute, devPtr: CUdeviceptr, count: usize) query skip;
            cuMemRangeGetAttributes(
                data: *mut *mut c_void = AttributesOut(attributes, numAttributes, MEM_RANGE_ATTRIBUTES),
                dataSizes: *mut usize = In(Len(numAttributes)),
                attributes: *mut CUmem_range_attribute = In(Len(numAttributes)), numAttributes: usize,
                devPtr: CUdeviceptr, count: usize) query skip;

            // Pointers of any kind.
            cuPointerGetAttribute(data: *mut c_void = AttributeOut(attribute, POINTER_ATTRIBUTES),
                attribute: CUpointer_attribute, ptr: CUdeviceptr) query skip;
            cuPointerGetAttributes(numAttributes: u32, attributes: *mut CUpointer_attribute = In(Len(numAttributes)),
                data: *mut *mut c_void = AttributesOut(attributes, numAttributes, POINTER_ATTRIBUTES),
                ptr: CUdeviceptr) query skip;
            cuPointerSetAttribute(value: *const c_void = AttributeIn(attribute, POINTER_ATTRIBUTES),
                attribute: CUpointer_attribute, ptr: CUdeviceptr) state skip;

            // Other processes.
            cuIpcGetEventHandle(pHandle: *mut CUipcEventHandle = Volatile(One), event: CUevent) query refuse;
            cuIpcOpenEventHandle(phEvent: *mut CUevent = Create(One), handle: CUipcEventHandle) create refuse;
            cuIpcGetMemHandle(pHandle: *mut CUipcMemHandle = Volatile(One), dptr: CUdeviceptr) query refuse;
            cuIpcOpenMemHandle_v2(pdptr: *mut CUdeviceptr = Create(One), handle: CUipcMemHandle,
                Flags: u32 = CUipcMem_flags::BITS) allocate refuse => Allocate { kind: Imported, bytes: Untold };
            cuIpcOpenMemHandle(pdptr: *mut CUdeviceptr = Create(One), handle: CUipcMemHandle,
                Flags: u32 = CUipcMem_flags::BITS) allocate refuse => Allocate { kind: Imported, bytes: Untold };
            cuIpcCloseMemHandle(dptr: CUdeviceptr = Destroy) free refuse => Free(Imported);
        }
    };
}

describe_family!(memory);
