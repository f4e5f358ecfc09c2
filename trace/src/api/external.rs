//! Memory and semaphores of other programming interfaces. They exist only in the recorded process, so a
//! replay refuses them.

#[macro_export]
macro_rules! external {
    ($($with:tt)+) => {
        $($with)+! {
            "external";
            cuImportExternalMemory(extMem_out: *mut CUexternalMemory = Create(One),
                memHandleDesc: *const CUDA_EXTERNAL_MEMORY_HANDLE_DESC = In(One)) create refuse;
            cuExternalMemoryGetMappedBuffer(devPtr: *mut CUdeviceptr = Create(One), extMem: CUexternalMemory,
                bufferDesc: *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC = In(One)) allocate refuse
                => Allocate { kind: Imported, bytes: Untold };
            cuExternalMemoryGetMappedMipmappedArray(mipmap: *mut CUmipmappedArray = Create(One),
                extMem: CUexternalMemory,
                mipmapDesc: *const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC = In(One)) allocate refuse
                => Allocate { kind: Imported, bytes: Untold };
            cuDestroyExternalMemory(extMem: CUexternalMemory = Destroy) destroy refuse;

            cuImportExternalSemaphore(extSem_out: *mut CUexternalSemaphore = Create(One),
                semHandleDesc: *const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC = In(One)) create refuse;
            cuSignalExternalSemaphoresAsync(extSemArray: *const CUexternalSemaphore = In(Len(numExtSems)),
                paramsArray: *const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS = In(Len(numExtSems)), numExtSems: u32,
                stream: CUstream) submit refuse | cuSignalExternalSemaphoresAsync_ptsz => Submit(Semaphore);
            cuWaitExternalSemaphoresAsync(extSemArray: *const CUexternalSemaphore = In(Len(numExtSems)),
                paramsArray: *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS = In(Len(numExtSems)), numExtSems: u32,
                stream: CUstream) submit refuse | cuWaitExternalSemaphoresAsync_ptsz => Submit(Semaphore);
            cuDestroyExternalSemaphore(extSem: CUexternalSemaphore = Destroy) destroy refuse;
        }
    };
}

describe_family!(external);
