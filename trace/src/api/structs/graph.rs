//! Parameters of graph nodes, and results of instantiation and update.
//!
//! Creating a node only names the fields that it reads or writes when the graph runs (host addresses of
//! copies, user data of host functions). Where the header has a union of a context and a green context, the
//! context stands for both: they have the same address (measured). Before CUDA 13.5 some of these fields were
//! bytes that had to be zero.

#![allow(non_snake_case)]

use super::super::attributes::*;
use super::super::enums::*;
use super::super::types::*;
use super::*;
use std::ffi::c_void;

structs! {
    CUgraphNodeParams {
        r#type: CUgraphNodeType,
        reserved0: [i32; 3],
        params: [u64; 29] = Union(r#type, GRAPH_NODES),
        reserved2: i64,
    }
    CUgraphEdgeData {
        from_port: u8,
        to_port: u8,
        r#type: u8 = CUgraphDependencyType::BITS,
        reserved: [u8; 5],
    }
    CUDA_GRAPH_INSTANTIATE_PARAMS {
        flags: u64 = CUgraphInstantiate_flags::BITS,
        hUploadStream: CUstream,
        hErrNode_out: CUgraphNode = Filled,
        result_out: CUgraphInstantiateResult = Filled,
    }
    CUgraphExecUpdateResultInfo {
        result: CUgraphExecUpdateResult,
        errorNode: CUgraphNode,
        errorFromNode: CUgraphNode,
    }
}

// Kernel nodes. From the second version on, `func` may be null and `kern` name the kernel instead.
structs! {
    CUDA_KERNEL_NODE_PARAMS_v1 {
        func: CUfunction,
        gridDimX: u32,
        gridDimY: u32,
        gridDimZ: u32,
        blockDimX: u32,
        blockDimY: u32,
        blockDimZ: u32,
        sharedMemBytes: u32,
        kernelParams: *mut *mut c_void = Arguments(func),
        extra: *mut *mut c_void = Extra,
    }
    CUDA_KERNEL_NODE_PARAMS {
        func: CUfunction,
        gridDimX: u32,
        gridDimY: u32,
        gridDimZ: u32,
        blockDimX: u32,
        blockDimY: u32,
        blockDimZ: u32,
        sharedMemBytes: u32,
        kernelParams: *mut *mut c_void = Arguments(func),
        extra: *mut *mut c_void = Extra,
        kern: CUkernel = Unless(func),
        ctx: CUcontext = Unless(func),
    }
    CUDA_KERNEL_NODE_PARAMS_v3 {
        func: CUfunction,
        gridDimX: u32,
        gridDimY: u32,
        gridDimZ: u32,
        blockDimX: u32,
        blockDimY: u32,
        blockDimZ: u32,
        sharedMemBytes: u32,
        kernelParams: *mut *mut c_void = Arguments(func),
        extra: *mut *mut c_void = Extra,
        kern: CUkernel = Unless(func),
        ctx: CUcontext = Unless(func),
    }
}

// Copies, memsets, host functions.
structs! {
    CUDA_MEMCPY_NODE_PARAMS {
        flags: i32,
        reserved: i32,
        copyCtx: CUcontext,
        copyParams: CUDA_MEMCPY3D,
    }
    CUDA_MEMSET_NODE_PARAMS {
        dst: CUdeviceptr = Writes(AtMost(&RectOf { pitch, width, height, element: elementSize })),
        pitch: usize,
        value: u32,
        elementSize: u32,
        width: usize,
        height: usize,
    }
    CUDA_MEMSET_NODE_PARAMS_v2 {
        dst: CUdeviceptr = Writes(AtMost(&RectOf { pitch, width, height, element: elementSize })),
        pitch: usize,
        value: u32,
        elementSize: u32,
        width: usize,
        height: usize,
        ctx: CUcontext,
    }
    CUDA_HOST_NODE_PARAMS {
        r#fn: CUhostFn = Callback,
        userData: *mut c_void = UserData,
    }
    CUDA_HOST_NODE_PARAMS_v2 {
        r#fn: CUhostFn = Callback,
        userData: *mut c_void = UserData,
        syncMode: u32 = CUhostTaskSyncMode::BITS,
        ctx: CUcontext,
    }
    // The copies are made when the graph runs.
    CUDA_MEMCPY_BATCH_NODE_PARAMS {
        count: usize,
        dsts: *mut CUdeviceptr = In(Len(count)),
        srcs: *mut CUdeviceptr = In(Len(count)),
        sizes: *mut usize = In(Len(count)),
        attrs: *mut CUmemcpyAttributes = In(Len(numAttrs)),
        attrsIdxs: *mut usize = In(Len(numAttrs)),
        numAttrs: usize,
        ctx: CUcontext,
    }
    CUDA_FABRIC_CPY_BATCH_NODE_PARAMS {
        numOps: usize,
        opList: *mut CUDA_FABRIC_COPY_BATCH_OP = In(Len(numOps)),
        flags: u64,
        ctx: CUcontext,
    }
}

// Child graphs, conditions, events.
structs! {
    CUDA_CHILD_GRAPH_NODE_PARAMS {
        graph: CUgraph,
        ownership: CUgraphChildGraphNodeOwnership,
    }
    CUDA_CONDITIONAL_NODE_PARAMS {
        handle: CUgraphConditionalHandle,
        r#type: CUgraphConditionalNodeType,
        size: u32,
        phGraph_out: *mut CUgraph = Owned(Len(size)),
        ctx: CUcontext,
    }
    CUDA_EVENT_RECORD_NODE_PARAMS {
        event: CUevent,
        ctx: CUcontext,
    }
    CUDA_EVENT_WAIT_NODE_PARAMS {
        event: CUevent,
    }
}

// Memory of the graph itself, and memory operations.
structs! {
    CUDA_MEM_ALLOC_NODE_PARAMS {
        poolProps: CUmemPoolProps,
        accessDescs: *const CUmemAccessDesc = In(Len(accessDescCount)),
        accessDescCount: usize,
        bytesize: usize,
        dptr: CUdeviceptr = Allocated(bytesize),
    }
    CUDA_MEM_ALLOC_NODE_PARAMS_v2 {
        poolProps: CUmemPoolProps,
        accessDescs: *const CUmemAccessDesc = In(Len(accessDescCount)),
        accessDescCount: usize,
        bytesize: usize,
        dptr: CUdeviceptr = Allocated(bytesize),
    }
    CUDA_MEM_FREE_NODE_PARAMS {
        dptr: CUdeviceptr,
    }
    CUDA_BATCH_MEM_OP_NODE_PARAMS {
        ctx: CUcontext,
        count: u32,
        paramArray: *mut CUstreamBatchMemOpParams = In(Len(count)),
        flags: u32,
    }
    CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 {
        ctx: CUcontext,
        count: u32,
        paramArray: *mut CUstreamBatchMemOpParams = In(Len(count)),
        flags: u32,
    }
}

// External semaphores. Their parameters are nested structs in the header; the fields keep the path as their
// name. An `nvSciSync_fence` belongs to another library.
structs! {
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS {
        extSemArray: *mut CUexternalSemaphore = In(Len(numExtSems)),
        paramsArray: *const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS = In(Len(numExtSems)),
        numExtSems: u32,
    }
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2 {
        extSemArray: *mut CUexternalSemaphore = In(Len(numExtSems)),
        paramsArray: *const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS = In(Len(numExtSems)),
        numExtSems: u32,
        ctx: CUcontext,
    }
    CUDA_EXT_SEM_WAIT_NODE_PARAMS {
        extSemArray: *mut CUexternalSemaphore = In(Len(numExtSems)),
        paramsArray: *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS = In(Len(numExtSems)),
        numExtSems: u32,
    }
    CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2 {
        extSemArray: *mut CUexternalSemaphore = In(Len(numExtSems)),
        paramsArray: *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS = In(Len(numExtSems)),
        numExtSems: u32,
        ctx: CUcontext,
    }
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS {
        fence_value: u64,
        nvSciSync_fence: *mut c_void = Opaque,
        keyedMutex_key: u64,
        params_reserved: [u32; 12],
        flags: u32,
        reserved: [u32; 16],
    }
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS {
        fence_value: u64,
        nvSciSync_fence: *mut c_void = Opaque,
        keyedMutex_key: u64,
        keyedMutex_timeoutMs: u32,
        keyedMutex_padding: u32,
        params_reserved: [u32; 10],
        flags: u32,
        reserved: [u32; 16],
    }
}

// Sizes in C, for what holds unions or is held by them.
const _: () = {
    assert!(size_of::<CUgraphNodeParams>() == 256);
    assert!(size_of::<CUDA_KERNEL_NODE_PARAMS_v3>() == 72);
    assert!(size_of::<CUDA_MEMCPY_NODE_PARAMS>() == 216);
    assert!(size_of::<CUDA_MEM_ALLOC_NODE_PARAMS_v2>() == 120);
    assert!(size_of::<CUDA_CONDITIONAL_NODE_PARAMS>() == 32);
    assert!(size_of::<CUDA_GRAPH_INSTANTIATE_PARAMS>() == 32);
    assert!(size_of::<CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS>() == 144);
    assert!(size_of::<CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS>() == 144);
};
