//! The driver as a whole, its devices, and services for the process: entry points, profiler, core dumps,
//! logs, checkpoints.
//!
//! Properties of a device are volatile: a replay may run on another GPU or driver, which return other values.

#[macro_export]
macro_rules! device {
    ($($with:tt)+) => {
        $($with)+! {
            "device";
            // The driver
            cuInit(Flags: u32) state => Initialize;
            cuDriverGetVersion(driverVersion: *mut i32 = Volatile(One)) query;
            cuGetErrorString(error: CUresult, pStr: *mut *const c_char = TextOut) query skip;
            cuGetErrorName(error: CUresult, pStr: *mut *const c_char = TextOut) query skip;
            cuGetProcAddress_v2(symbol: *const c_char = Text, pfn: *mut *mut c_void = EntryPoint, cudaVersion: i32,
                flags: u64 = CUdriverProcAddress_flags::BITS,
                symbolStatus: *mut CUdriverProcAddressQueryResult = Volatile(One)) query skip => FindEntryPoint;
            cuGetProcAddress(symbol: *const c_char = Text, pfn: *mut *mut c_void = EntryPoint, cudaVersion: i32,
                flags: u64 = CUdriverProcAddress_flags::BITS) query skip => FindEntryPoint;
            cuGetExportTable(ppExportTable: *mut *const c_void = EntryPoint,
                pExportTableId: *const CUuuid = In(One)) query skip;

            // Devices. The bus id in a trace is the recorded machine's, so the search by it is not repeated.
            cuDeviceGet(device: *mut CUdevice = Out(One), ordinal: i32) query;
            cuDeviceGetCount(count: *mut i32 = Volatile(One)) query;
            cuDeviceGetByPCIBusId(dev: *mut CUdevice = Out(One), pciBusId: *const c_char = Text) query skip;
            cuDeviceGetPCIBusId(pciBusId: *mut c_char = Volatile(TextUpTo(len)), len: i32, dev: CUdevice) query;
            cuDeviceGetName(name: *mut c_char = Volatile(TextUpTo(len)), len: i32, dev: CUdevice) query;
            cuDeviceGetUuid_v2(uuid: *mut CUuuid = Volatile(One), dev: CUdevice) query;
            cuDeviceGetUuid(uuid: *mut CUuuid = Volatile(One), dev: CUdevice) query;
            cuDeviceGetLuid(luid: *mut c_char = Volatile(Fixed(8)), deviceNodeMask: *mut u32 = Volatile(One),
                dev: CUdevice) query;
            cuDeviceTotalMem_v2(bytes: *mut usize = Volatile(One), dev: CUdevice) query;
            cuDeviceTotalMem(bytes: *mut u32 = Volatile(One), dev: CUdevice) query;
            cuDeviceGetTexture1DLinearMaxWidth(maxWidthInElements: *mut usize = Volatile(One), format: CUarray_format,
                numChannels: u32, dev: CUdevice) query;
            cuDeviceGetAttribute(pi: *mut i32 = Volatile(One), attrib: CUdevice_attribute, dev: CUdevice) query;
            cuDeviceGetProperties(prop: *mut CUdevprop = Volatile(One), dev: CUdevice) query;
            cuDeviceComputeCapability(major: *mut i32 = Volatile(One), minor: *mut i32 = Volatile(One),
                dev: CUdevice) query;
            cuDeviceGetExecAffinitySupport(pi: *mut i32 = Volatile(One), r#type: CUexecAffinityType,
                dev: CUdevice) query;
            cuDeviceGetHostAtomicCapabilities(capabilities: *mut u32 = Volatile(Len(count)),
                operations: *const CUatomicOperation = In(Len(count)), count: u32, dev: CUdevice) query;
            cuDeviceGetNvSciSyncAttributes(nvSciSyncAttrList: *mut c_void = Opaque, dev: CUdevice,
                flags: i32) query refuse;

            // The fabric that the recorded machine is part of.
            cuDeviceGetFabricClusterUuid(uuid: *mut CUuuid = Volatile(One), dev: CUdevice) query skip;
            cuDeviceGetCliqueCount(count: *mut usize = Volatile(One), dev: CUdevice) query skip;
            cuDeviceGetCliqueInfo(cliqueInfo: *mut CUcliqueInfo = Volatile(LenAt(count)),
                count: *mut usize = InOut(One), dev: CUdevice) query skip;

            // Pairs of devices
            cuDeviceCanAccessPeer(canAccessPeer: *mut i32 = Volatile(One), dev: CUdevice, peerDev: CUdevice) query;
            cuDeviceGetP2PAttribute(value: *mut i32 = Volatile(One), attrib: CUdevice_P2PAttribute,
                srcDevice: CUdevice, dstDevice: CUdevice) query;
            cuDeviceGetP2PAtomicCapabilities(capabilities: *mut u32 = Volatile(Len(count)),
                operations: *const CUatomicOperation = In(Len(count)), count: u32, srcDevice: CUdevice,
                dstDevice: CUdevice) query;
            cuFlushGPUDirectRDMAWrites(target: CUflushGPUDirectRDMAWritesTarget,
                scope: CUflushGPUDirectRDMAWritesScope) synchronize;

            // Notices of memory pressure: they reach the application from outside, its reaction is in the
            // trace.
            cuDeviceRegisterAsyncNotification(device: CUdevice, callbackFunc: CUasyncCallback = Callback,
                userData: *mut c_void = UserData, callback: *mut CUasyncCallbackHandle = Create(One)) create skip;
            cuDeviceUnregisterAsyncNotification(device: CUdevice,
                callback: CUasyncCallbackHandle = Destroy) destroy skip;

            // Profiler
            cuProfilerInitialize(configFile: *const c_char = Path, outputFile: *const c_char = Text,
                outputMode: CUoutput_mode) state skip;
            cuProfilerStart() state => ProfilerRange { begins: true };
            cuProfilerStop() state => ProfilerRange { begins: false };

            // Core dumps
            cuCoredumpGetAttribute(attrib: CUcoredumpSettings, value: *mut c_void = Volatile(LenAt(size)),
                size: *mut usize = InOut(One)) query skip;
            cuCoredumpGetAttributeGlobal(attrib: CUcoredumpSettings, value: *mut c_void = Volatile(LenAt(size)),
                size: *mut usize = InOut(One)) query skip;
            cuCoredumpSetAttribute(attrib: CUcoredumpSettings, value: *mut c_void = In(LenAt(size)),
                size: *mut usize = In(One)) state skip;
            cuCoredumpSetAttributeGlobal(attrib: CUcoredumpSettings, value: *mut c_void = In(LenAt(size)),
                size: *mut usize = In(One)) state skip;

            cuCoredumpRegisterStartCallback(callback: CUcoredumpStatusCallback = Callback,
                userData: *mut c_void = UserData, callbackOut: *mut CUcoredumpCallbackHandle = Create(One)) create skip;
            cuCoredumpRegisterCompleteCallback(callback: CUcoredumpStatusCallback = Callback,
                userData: *mut c_void = UserData, callbackOut: *mut CUcoredumpCallbackHandle = Create(One)) create skip;
            cuCoredumpDeregisterStartCallback(callback: CUcoredumpCallbackHandle = Destroy) destroy skip;
            cuCoredumpDeregisterCompleteCallback(callback: CUcoredumpCallbackHandle = Destroy) destroy skip;

            // The driver's log of errors
            cuLogsRegisterCallback(callbackFunc: CUlogsCallback = Callback, userData: *mut c_void = UserData,
                callback_out: *mut CUlogsCallbackHandle = Create(One)) create skip;
            cuLogsUnregisterCallback(callback: CUlogsCallbackHandle = Destroy) destroy skip;
            cuLogsCurrent(iterator_out: *mut CUlogIterator = Volatile(One), flags: u32) query skip;
            cuLogsDumpToFile(iterator: *mut CUlogIterator = InOut(One), pathToFile: *const c_char = Text,
                flags: u32) query skip;
            cuLogsDumpToMemory(iterator: *mut CUlogIterator = InOut(One), buffer: *mut c_char = Volatile(LenAt(size)),
                size: *mut usize = InOut(One), flags: u32) query skip;

            // Checkpoints of a process, this one or another
            cuCheckpointProcessGetRestoreThreadId(pid: i32, tid: *mut i32 = Volatile(One)) query skip;
            cuCheckpointProcessGetState(pid: i32, state: *mut CUprocessState = Volatile(One)) query skip;
            cuCheckpointProcessLock(pid: i32, args: *mut CUcheckpointLockArgs = In(One)) state refuse;
            cuCheckpointProcessCheckpoint(pid: i32, args: *mut CUcheckpointCheckpointArgs = In(One)) state refuse;
            cuCheckpointProcessRestore(pid: i32, args: *mut CUcheckpointRestoreArgs = In(One)) state refuse;
            cuCheckpointOperationComplete(handle: CUcheckpointOperationHandle = Destroy) state refuse;
            cuCheckpointProcessUnlock(pid: i32, args: *mut CUcheckpointUnlockArgs = In(One)) state refuse;
        }
    };
}

describe_family!(device);
