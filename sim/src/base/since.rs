//! The CUDA version that introduced each driver function, from cudaTypedefs.h (13.5).

/// Base names by version. What is not here came with 2.0 or before.
const SINCE: &[(i32, &str)] = &[
    (2010, "cuModuleLoadDataEx"),
    (2020, "cuDriverGetVersion cuFuncGetAttribute cuMemHostAlloc"),
    (2030, "cuMemHostGetFlags"),
    (3000, "cuFuncSetCacheConfig cuGetExportTable cuModuleGetSurfRef"),
    (3010, "cuCtxGetLimit cuCtxSetLimit"),
    (
        3020,
        "cuCtxGetApiVersion cuCtxGetCacheConfig cuCtxSetCacheConfig cuMemsetD16Async cuMemsetD2D16Async \
        cuMemsetD2D32Async cuMemsetD2D8Async cuMemsetD32Async cuMemsetD8Async cuStreamWaitEvent",
    ),
    (
        4000,
        "cuCtxDisablePeerAccess cuCtxEnablePeerAccess cuCtxGetCurrent cuCtxSetCurrent cuDeviceCanAccessPeer \
        cuLaunchKernel cuMemHostRegister cuMemHostUnregister cuMemcpy cuMemcpy3DPeer cuMemcpy3DPeerAsync \
        cuMemcpyAsync cuMemcpyPeer cuMemcpyPeerAsync cuPointerGetAttribute cuProfilerStart cuProfilerStop",
    ),
    (
        4010,
        "cuDeviceGetByPCIBusId cuDeviceGetPCIBusId cuIpcCloseMemHandle cuIpcGetEventHandle cuIpcGetMemHandle \
        cuIpcOpenEventHandle",
    ),
    (4020, "cuCtxGetSharedMemConfig cuCtxSetSharedMemConfig cuFuncSetSharedMemConfig"),
    (
        5000,
        "cuMipmappedArrayCreate cuMipmappedArrayDestroy cuMipmappedArrayGetLevel cuStreamAddCallback \
        cuSurfObjectCreate cuSurfObjectDestroy cuSurfObjectGetResourceDesc cuTexObjectCreate \
        cuTexObjectDestroy cuTexObjectGetResourceDesc cuTexObjectGetResourceViewDesc \
        cuTexObjectGetTextureDesc cuTexRefGetMaxAnisotropy cuTexRefGetMipmapFilterMode \
        cuTexRefGetMipmapLevelBias cuTexRefGetMipmapLevelClamp cuTexRefGetMipmappedArray \
        cuTexRefSetMaxAnisotropy cuTexRefSetMipmapFilterMode cuTexRefSetMipmapLevelBias \
        cuTexRefSetMipmapLevelClamp cuTexRefSetMipmappedArray",
    ),
    (
        5050,
        "cuCtxGetStreamPriorityRange cuLinkAddData cuLinkAddFile cuLinkComplete cuLinkCreate cuLinkDestroy \
        cuStreamCreateWithPriority cuStreamGetFlags cuStreamGetPriority",
    ),
    (6000, "cuGetErrorName cuGetErrorString cuMemAllocManaged cuPointerSetAttribute cuStreamAttachMemAsync"),
    (6050, "cuOccupancyMaxActiveBlocksPerMultiprocessor cuOccupancyMaxPotentialBlockSize"),
    (
        7000,
        "cuCtxGetFlags cuDevicePrimaryCtxGetState cuDevicePrimaryCtxRelease cuDevicePrimaryCtxReset \
        cuDevicePrimaryCtxRetain cuDevicePrimaryCtxSetFlags \
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuOccupancyMaxPotentialBlockSizeWithFlags \
        cuPointerGetAttributes",
    ),
    (
        8000,
        "cuDeviceGetP2PAttribute cuMemAdvise cuMemPrefetchAsync cuMemRangeGetAttribute \
        cuMemRangeGetAttributes cuStreamBatchMemOp cuStreamWaitValue32 cuStreamWriteValue32 \
        cuTexRefGetBorderColor cuTexRefSetBorderColor",
    ),
    (
        9000,
        "cuFuncSetAttribute cuLaunchCooperativeKernel cuLaunchCooperativeKernelMultiDevice \
        cuStreamWaitValue64 cuStreamWriteValue64",
    ),
    (9020, "cuDeviceGetUuid cuStreamGetCtx"),
    (
        10000,
        "cuGraphAddChildGraphNode cuGraphAddDependencies cuGraphAddEmptyNode cuGraphAddHostNode \
        cuGraphAddKernelNode cuGraphAddMemcpyNode cuGraphAddMemsetNode cuGraphChildGraphNodeGetGraph \
        cuGraphClone cuGraphCreate cuGraphDestroy cuGraphDestroyNode cuGraphExecDestroy cuGraphGetEdges \
        cuGraphGetNodes cuGraphGetRootNodes cuGraphHostNodeGetParams cuGraphHostNodeSetParams \
        cuGraphInstantiate cuGraphKernelNodeGetParams cuGraphKernelNodeSetParams cuGraphLaunch \
        cuGraphMemcpyNodeGetParams cuGraphMemcpyNodeSetParams cuGraphMemsetNodeGetParams \
        cuGraphMemsetNodeSetParams cuGraphNodeFindInClone cuGraphNodeGetDependencies \
        cuGraphNodeGetDependentNodes cuGraphNodeGetType cuGraphRemoveDependencies cuLaunchHostFunc \
        cuStreamBeginCapture cuStreamEndCapture cuStreamIsCapturing",
    ),
    (10010, "cuGraphExecKernelNodeSetParams cuStreamGetCaptureInfo cuThreadExchangeStreamCaptureMode"),
    (
        10020,
        "cuGraphExecHostNodeSetParams cuGraphExecMemcpyNodeSetParams cuGraphExecMemsetNodeSetParams \
        cuGraphExecUpdate cuMemAddressFree cuMemAddressReserve cuMemCreate cuMemExportToShareableHandle \
        cuMemGetAccess cuMemGetAllocationGranularity cuMemGetAllocationPropertiesFromHandle \
        cuMemImportFromShareableHandle cuMemMap cuMemRelease cuMemSetAccess cuMemUnmap \
        cuOccupancyAvailableDynamicSMemPerBlock",
    ),
    (
        11000,
        "cuCtxResetPersistingL2Cache cuFuncGetModule cuGraphKernelNodeCopyAttributes \
        cuGraphKernelNodeGetAttribute cuGraphKernelNodeSetAttribute cuMemRetainAllocationHandle \
        cuStreamCopyAttributes cuStreamGetAttribute cuStreamSetAttribute",
    ),
    (
        11010,
        "cuArrayGetSparseProperties cuDeviceGetTexture1DLinearMaxWidth cuEventRecordWithFlags \
        cuGraphAddEventRecordNode cuGraphAddEventWaitNode cuGraphEventRecordNodeGetEvent \
        cuGraphEventRecordNodeSetEvent cuGraphEventWaitNodeGetEvent cuGraphEventWaitNodeSetEvent \
        cuGraphExecChildGraphNodeSetParams cuGraphExecEventRecordNodeSetEvent \
        cuGraphExecEventWaitNodeSetEvent cuGraphUpload cuMipmappedArrayGetSparseProperties",
    ),
    (
        11020,
        "cuArrayGetPlane cuDeviceGetDefaultMemPool cuDeviceGetMemPool cuDeviceSetMemPool cuMemAllocAsync \
        cuMemAllocFromPoolAsync cuMemFreeAsync cuMemPoolCreate cuMemPoolDestroy cuMemPoolGetAccess \
        cuMemPoolGetAttribute cuMemPoolSetAccess cuMemPoolSetAttribute cuMemPoolTrimTo",
    ),
    (
        11030,
        "cuFlushGPUDirectRDMAWrites cuGetProcAddress cuGraphDebugDotPrint cuGraphReleaseUserObject \
        cuGraphRetainUserObject cuStreamUpdateCaptureDependencies cuUserObjectCreate cuUserObjectRelease \
        cuUserObjectRetain",
    ),
    (
        11040,
        "cuCtxGetExecAffinity cuDeviceGetExecAffinitySupport cuDeviceGetGraphMemAttribute \
        cuDeviceGraphMemTrim cuDeviceSetGraphMemAttribute cuGraphAddMemAllocNode cuGraphAddMemFreeNode \
        cuGraphInstantiateWithFlags cuGraphMemAllocNodeGetParams cuGraphMemFreeNodeGetParams",
    ),
    (
        11060,
        "cuArrayGetMemoryRequirements cuGraphNodeGetEnabled cuGraphNodeSetEnabled cuLaunchKernelEx \
        cuMipmappedArrayGetMemoryRequirements",
    ),
    (
        11070,
        "cuGraphAddBatchMemOpNode cuGraphBatchMemOpNodeGetParams cuGraphBatchMemOpNodeSetParams \
        cuGraphExecBatchMemOpNodeSetParams cuModuleGetLoadingMode cuOccupancyMaxActiveClusters \
        cuOccupancyMaxPotentialClusterSize",
    ),
    (
        12000,
        "cuCtxGetId cuGraphExecGetFlags cuGraphInstantiateWithParams cuKernelGetAttribute cuKernelGetFunction \
        cuKernelSetAttribute cuKernelSetCacheConfig cuLibraryGetGlobal cuLibraryGetKernel \
        cuLibraryGetManaged cuLibraryGetModule cuLibraryLoadData cuLibraryLoadFromFile cuLibraryUnload \
        cuStreamGetId cuTensorMapEncodeIm2col cuTensorMapEncodeTiled cuTensorMapReplaceAddress",
    ),
    (12010, "cuCtxSetFlags"),
    (12020, "cuGraphAddNode cuGraphExecNodeSetParams cuGraphNodeSetParams"),
    (12030, "cuFuncGetName cuGraphConditionalHandleCreate cuKernelGetName cuStreamBeginCaptureToGraph"),
    (
        12040,
        "cuCtxFromGreenCtx cuCtxGetDevResource cuDevResourceGenerateDesc cuDevSmResourceSplitByCount \
        cuDeviceGetDevResource cuFuncGetParamInfo cuFuncIsLoaded cuFuncLoad cuGreenCtxCreate \
        cuGreenCtxDestroy cuGreenCtxGetDevResource cuGreenCtxRecordEvent cuGreenCtxWaitEvent \
        cuKernelGetParamInfo cuLibraryEnumerateKernels cuLibraryGetKernelCount cuModuleEnumerateFunctions \
        cuModuleGetFunctionCount cuStreamGetGreenCtx",
    ),
    (12050, "cuCtxRecordEvent cuCtxWaitEvent cuGreenCtxStreamCreate cuKernelGetLibrary"),
    (12060, "cuMemBatchDecompressAsync"),
    (12080, "cuMemcpy3DBatchAsync cuMemcpyBatchAsync cuStreamGetDevice cuTensorMapEncodeIm2colWide"),
    (12090, "cuGreenCtxGetId"),
    (
        13000,
        "cuDeviceGetHostAtomicCapabilities cuDeviceGetP2PAtomicCapabilities cuMemDiscardAndPrefetchBatchAsync \
        cuMemDiscardBatchAsync cuMemGetDefaultMemPool cuMemGetMemPool cuMemPrefetchBatchAsync \
        cuMemSetMemPool",
    ),
    (
        13010,
        "cuDevSmResourceSplit cuGraphExecGetId cuGraphGetId cuGraphNodeGetContainingGraph \
        cuGraphNodeGetLocalId cuGraphNodeGetToolsId cuStreamGetDevResource",
    ),
    (
        13020,
        "cuCoredumpDeregisterCompleteCallback cuCoredumpDeregisterStartCallback \
        cuCoredumpRegisterCompleteCallback cuCoredumpRegisterStartCallback cuFuncGetParamCount \
        cuGraphNodeGetParams cuKernelGetParamCount cuMemcpy3DWithAttributesAsync cuMemcpyWithAttributesAsync",
    ),
    (13040, "cuMemGetLocationInfo"),
    (13050, "cuTensorMapSetAllocationClass"),
];

/// The version from which on cuGetProcAddress hands out a function of this name.
pub(crate) fn since(name: &str) -> i32 {
    let found = SINCE.iter().find(|(_, names)| names.split(' ').any(|known| known == name));
    found.map_or(2000, |(version, _)| *version)
}
