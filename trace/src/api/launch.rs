//! Launches of kernels and host functions, and occupancy queries.

#[macro_export]
macro_rules! launch {
    ($($with:tt)+) => {
        $($with)+! {
            "launch";
            cuLaunchKernel(f: CUfunction, gridDimX: u32, gridDimY: u32, gridDimZ: u32, blockDimX: u32, blockDimY: u32,
                blockDimZ: u32, sharedMemBytes: u32, hStream: CUstream, kernelParams: *mut *mut c_void = Arguments(f),
                extra: *mut *mut c_void = Extra) launch | cuLaunchKernel_ptsz => Submit(Kernel);
            cuLaunchKernelEx(config: *const CUlaunchConfig = In(One), f: CUfunction,
                kernelParams: *mut *mut c_void = Arguments(f), extra: *mut *mut c_void = Extra)
                launch | cuLaunchKernelEx_ptsz => Submit(Kernel);
            cuLaunchCooperativeKernel(f: CUfunction, gridDimX: u32, gridDimY: u32, gridDimZ: u32, blockDimX: u32,
                blockDimY: u32, blockDimZ: u32, sharedMemBytes: u32, hStream: CUstream,
                kernelParams: *mut *mut c_void = Arguments(f)) launch | cuLaunchCooperativeKernel_ptsz
                => Submit(Kernel);
            cuLaunchCooperativeKernelMultiDevice(launchParamsList: *mut CUDA_LAUNCH_PARAMS = In(Len(numDevices)),
                numDevices: u32, flags: u32) launch => Submit(KernelOnEach);
            cuLaunchHostFunc(hStream: CUstream, r#fn: CUhostFn = Callback, userData: *mut c_void = UserData)
                submit | cuLaunchHostFunc_ptsz => Submit(HostFunction);
            cuLaunchHostFunc_v2(hStream: CUstream, r#fn: CUhostFn = Callback, userData: *mut c_void = UserData,
                syncMode: u32 = CUhostTaskSyncMode::BITS) submit | cuLaunchHostFunc_v2_ptsz => Submit(HostFunction);

            // Launches before CUDA 4.0: arguments are put into the function one by one, and stay there.
            // Addresses go in by `cuParamSetv`; halves that `cuParamSeti` puts there are right only where
            // memory could be placed.
            cuParamSetSize(hfunc: CUfunction, numbytes: u32) state;
            cuParamSeti(hfunc: CUfunction, offset: i32, value: u32) state => SetArgument;
            cuParamSetf(hfunc: CUfunction, offset: i32, value: f32) state => SetArgument;
            cuParamSetv(hfunc: CUfunction, offset: i32, ptr: *mut c_void = In(Len(numbytes)), numbytes: u32)
                state => SetArgument;
            cuParamSetTexRef(hfunc: CUfunction, texunit: i32, hTexRef: CUtexref) state;
            cuLaunch(f: CUfunction) launch => Submit(Kernel);
            cuLaunchGrid(f: CUfunction, grid_width: i32, grid_height: i32) launch => Submit(Kernel);
            cuLaunchGridAsync(f: CUfunction, grid_width: i32, grid_height: i32, hStream: CUstream) launch
                => Submit(Kernel);

            // Occupancy. The answers are properties of the device. The callback is called before the function
            // returns.
            cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks: *mut i32 = Volatile(One), func: CUfunction,
                blockSize: i32, dynamicSMemSize: usize) query;
            cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks: *mut i32 = Volatile(One), func: CUfunction,
                blockSize: i32, dynamicSMemSize: usize, flags: u32 = CUoccupancy_flags::BITS) query;
            cuOccupancyMaxPotentialBlockSize(minGridSize: *mut i32 = Volatile(One), blockSize: *mut i32 = Volatile(One),
                func: CUfunction, blockSizeToDynamicSMemSize: CUoccupancyB2DSize = Callback, dynamicSMemSize: usize,
                blockSizeLimit: i32) query skip;
            cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize: *mut i32 = Volatile(One),
                blockSize: *mut i32 = Volatile(One), func: CUfunction,
                blockSizeToDynamicSMemSize: CUoccupancyB2DSize = Callback, dynamicSMemSize: usize, blockSizeLimit: i32,
                flags: u32 = CUoccupancy_flags::BITS) query skip;
            cuOccupancyAvailableDynamicSMemPerBlock(dynamicSmemSize: *mut usize = Volatile(One), func: CUfunction,
                numBlocks: i32, blockSize: i32) query;
            cuOccupancyMaxPotentialClusterSize(clusterSize: *mut i32 = Volatile(One), func: CUfunction,
                config: *const CUlaunchConfig = In(One)) query;
            cuOccupancyMaxActiveClusters(numClusters: *mut i32 = Volatile(One), func: CUfunction,
                config: *const CUlaunchConfig = In(One)) query;
        }
    };
}

describe_family!(launch);
