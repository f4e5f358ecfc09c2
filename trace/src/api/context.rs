//! Contexts (primary, created and green), with their limits, settings and resources.
//!
//! The end of a context (or the reset of a primary one) ends all memory, modules, streams and events in it.

#[macro_export]
macro_rules! context {
    ($($with:tt)+) => {
        $($with)+! {
            "context";
            // The primary context of a device, counted: every retain gives the same one.
            cuDevicePrimaryCtxRetain(pctx: *mut CUcontext = Out(One), dev: CUdevice) state => RetainPrimary;
            cuDevicePrimaryCtxRelease_v2(dev: CUdevice) state => ReleasePrimary;
            cuDevicePrimaryCtxRelease(dev: CUdevice) state => ReleasePrimary;
            cuDevicePrimaryCtxSetFlags_v2(dev: CUdevice, flags: u32 = CUctx_flags::BITS) state;
            cuDevicePrimaryCtxSetFlags(dev: CUdevice, flags: u32 = CUctx_flags::BITS) state;
            cuDevicePrimaryCtxGetState(dev: CUdevice, flags: *mut u32 = Out(One), active: *mut i32 = Out(One)) query;
            cuDevicePrimaryCtxReset_v2(dev: CUdevice) destroy => ResetPrimary;
            cuDevicePrimaryCtxReset(dev: CUdevice) destroy => ResetPrimary;

            // Contexts of the application
            cuCtxCreate_v4(pctx: *mut CUcontext = Create(One), ctxCreateParams: *mut CUctxCreateParams = In(One),
                flags: u32 = CUctx_flags::BITS, dev: CUdevice) create;
            cuCtxCreate_v3(pctx: *mut CUcontext = Create(One),
                paramsArray: *mut CUexecAffinityParam = In(Len(numParams)), numParams: i32,
                flags: u32 = CUctx_flags::BITS, dev: CUdevice) create;
            cuCtxCreate_v2(pctx: *mut CUcontext = Create(One), flags: u32 = CUctx_flags::BITS, dev: CUdevice) create;
            cuCtxCreate(pctx: *mut CUcontext = Create(One), flags: u32 = CUctx_flags::BITS, dev: CUdevice) create;
            cuCtxDestroy_v2(ctx: CUcontext = Destroy) destroy;
            cuCtxDestroy(ctx: CUcontext = Destroy) destroy;
            cuCtxAttach(pctx: *mut CUcontext = Out(One), flags: u32) state => AttachContext;
            cuCtxDetach(ctx: CUcontext) state => DetachContext;

            // The calling thread's stack of contexts
            cuCtxPushCurrent_v2(ctx: CUcontext) state => PushContext;
            cuCtxPushCurrent(ctx: CUcontext) state => PushContext;
            cuCtxPopCurrent_v2(pctx: *mut CUcontext = Out(One)) state => PopContext;
            cuCtxPopCurrent(pctx: *mut CUcontext = Out(One)) state => PopContext;
            cuCtxSetCurrent(ctx: CUcontext) state => SetContext;
            cuCtxGetCurrent(pctx: *mut CUcontext = Out(One)) query;
            cuCtxGetDevice(device: *mut CUdevice = Out(One)) query => TellDevice;
            cuCtxGetDevice_v2(device: *mut CUdevice = Out(One), ctx: CUcontext) query;
            cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode = InOut(One)) state;

            // Settings
            cuCtxGetFlags(flags: *mut u32 = Out(One)) query;
            cuCtxSetFlags(flags: u32 = CUctx_flags::BITS) state;
            cuCtxGetId(ctx: CUcontext, ctxId: *mut u64 = Volatile(One)) query;
            cuCtxGetApiVersion(ctx: CUcontext, version: *mut u32 = Volatile(One)) query;
            cuCtxSetLimit(limit: CUlimit, value: usize) state;
            cuCtxGetLimit(pvalue: *mut usize = Volatile(One), limit: CUlimit) query;
            cuCtxGetCacheConfig(pconfig: *mut CUfunc_cache = Out(One)) query;
            cuCtxSetCacheConfig(config: CUfunc_cache) state;
            cuCtxGetSharedMemConfig(pConfig: *mut CUsharedconfig = Out(One)) query;
            cuCtxSetSharedMemConfig(config: CUsharedconfig) state;
            cuCtxGetStreamPriorityRange(leastPriority: *mut i32 = Volatile(One),
                greatestPriority: *mut i32 = Volatile(One)) query;
            cuCtxResetPersistingL2Cache() state;
            cuCtxGetExecAffinity(pExecAffinity: *mut CUexecAffinityParam = Volatile(One),
                r#type: CUexecAffinityType) query;
            cuCtxEnablePeerAccess(peerContext: CUcontext, Flags: u32) state;
            cuCtxDisablePeerAccess(peerContext: CUcontext) state;

            // Waiting
            cuCtxSynchronize() synchronize;
            cuCtxSynchronize_v2(ctx: CUcontext) synchronize;
            cuCtxRecordEvent(hCtx: CUcontext, hEvent: CUevent) submit => Submit(RecordEvent);
            cuCtxWaitEvent(hCtx: CUcontext, hEvent: CUevent) submit => Submit(AwaitEvent);

            // Green contexts. One and its CUcontext are the same address under two types (measured).
            cuGreenCtxCreate(phCtx: *mut CUgreenCtx = Create(One), desc: CUdevResourceDesc, dev: CUdevice,
                flags: u32 = CUgreenCtxCreate_flags::BITS) create;
            cuGreenCtxDestroy(hCtx: CUgreenCtx = Destroy) destroy;
            cuCtxFromGreenCtx(pContext: *mut CUcontext = Out(One), hCtx: CUgreenCtx) query;
            cuGreenCtxGetId(greenCtx: CUgreenCtx, greenCtxId: *mut u64 = Volatile(One)) query;
            cuGreenCtxRecordEvent(hCtx: CUgreenCtx, hEvent: CUevent) submit => Submit(RecordEvent);
            cuGreenCtxWaitEvent(hCtx: CUgreenCtx, hEvent: CUevent) submit => Submit(AwaitEvent);
            cuGreenCtxStreamCreate(phStream: *mut CUstream = Create(One), greenCtx: CUgreenCtx,
                flags: u32 = CUstream_flags::BITS, priority: i32) create;

            // Resources of green contexts. A CUdevResource holds an address of the driver and a checksum
            // (measured), so replay must put the live bytes where the recorded ones are handed in.
            cuDeviceGetDevResource(device: CUdevice, resource: *mut CUdevResource = Volatile(One),
                r#type: CUdevResourceType) query;
            cuCtxGetDevResource(hCtx: CUcontext, resource: *mut CUdevResource = Volatile(One),
                r#type: CUdevResourceType) query;
            cuGreenCtxGetDevResource(hCtx: CUgreenCtx, resource: *mut CUdevResource = Volatile(One),
                r#type: CUdevResourceType) query;
            cuDevSmResourceSplitByCount(result: *mut CUdevResource = Volatile(LenAt(nbGroups)),
                nbGroups: *mut u32 = InOut(One), input: *const CUdevResource = In(One),
                remainder: *mut CUdevResource = Volatile(One), flags: u32 = CUdevSmResourceSplitByCount_flags::BITS,
                minCount: u32) query;
            cuDevSmResourceSplit(result: *mut CUdevResource = Volatile(Len(nbGroups)), nbGroups: u32,
                input: *const CUdevResource = In(One), remainder: *mut CUdevResource = Volatile(One), flags: u32,
                groupParams: *mut CU_DEV_SM_RESOURCE_GROUP_PARAMS = InOut(Len(nbGroups))) query;
            cuDevResourceGenerateDesc(phDesc: *mut CUdevResourceDesc = Create(One),
                resources: *mut CUdevResource = In(Len(nbResources)), nbResources: u32) create;
        }
    };
}

describe_family!(context);
