//! Copies, fills, and moves of managed memory.
//!
//! A call of class `copy` may have a host side, and is then complete on return; a copy between devices only
//! is queued (`submit`). Functions with 32-bit addresses return `CUDA_ERROR_INVALID_CONTEXT` in contexts of
//! today; `cuCtxCreate`, which made theirs, returns out of memory (driver 580).

#[macro_export]
macro_rules! copy {
    ($($with:tt)+) => {
        $($with)+! {
            "copy";
            // Linear, unified addresses.
            cuMemcpy(dst: CUdeviceptr = Writes(Len(ByteCount)), src: CUdeviceptr = Reads(Len(ByteCount)),
                ByteCount: usize) copy | cuMemcpy_ptds => Submit(UnifiedCopy);
            cuMemcpyAsync(dst: CUdeviceptr = Writes(Len(ByteCount)), src: CUdeviceptr = Reads(Len(ByteCount)),
                ByteCount: usize, hStream: CUstream) submit | cuMemcpyAsync_ptsz => Submit(UnifiedCopy);
            cuMemcpyPeer(dstDevice: CUdeviceptr = Writes(Len(ByteCount)), dstContext: CUcontext,
                srcDevice: CUdeviceptr = Reads(Len(ByteCount)), srcContext: CUcontext, ByteCount: usize)
                submit | cuMemcpyPeer_ptds => Submit(Copy);
            cuMemcpyPeerAsync(dstDevice: CUdeviceptr = Writes(Len(ByteCount)), dstContext: CUcontext,
                srcDevice: CUdeviceptr = Reads(Len(ByteCount)), srcContext: CUcontext, ByteCount: usize,
                hStream: CUstream) submit | cuMemcpyPeerAsync_ptsz => Submit(Copy);

            // Host to device.
            cuMemcpyHtoD_v2(dstDevice: CUdeviceptr = Writes(Len(ByteCount)),
                srcHost: *const c_void = Source(Len(ByteCount)), ByteCount: usize) copy | cuMemcpyHtoD_v2_ptds
                => Submit(Copy);
            cuMemcpyHtoD(dstDevice: CUdeviceptr_v1 = Writes(Len(ByteCount)),
                srcHost: *const c_void = Source(Len(ByteCount)), ByteCount: u32) copy refuse => Submit(Copy);
            cuMemcpyHtoDAsync_v2(dstDevice: CUdeviceptr = Writes(Len(ByteCount)),
                srcHost: *const c_void = Source(Len(ByteCount)), ByteCount: usize, hStream: CUstream)
                submit | cuMemcpyHtoDAsync_v2_ptsz => Submit(Copy);
            cuMemcpyHtoDAsync(dstDevice: CUdeviceptr_v1 = Writes(Len(ByteCount)),
                srcHost: *const c_void = Source(Len(ByteCount)), ByteCount: u32, hStream: CUstream) submit refuse
                => Submit(Copy);

            // Device to host.
            cuMemcpyDtoH_v2(dstHost: *mut c_void = Sink(Len(ByteCount)),
                srcDevice: CUdeviceptr = Reads(Len(ByteCount)), ByteCount: usize) copy | cuMemcpyDtoH_v2_ptds
                => Submit(Copy);
            cuMemcpyDtoH(dstHost: *mut c_void = Sink(Len(ByteCount)),
                srcDevice: CUdeviceptr_v1 = Reads(Len(ByteCount)), ByteCount: u32) copy refuse => Submit(Copy);
            cuMemcpyDtoHAsync_v2(dstHost: *mut c_void = Sink(Len(ByteCount)),
                srcDevice: CUdeviceptr = Reads(Len(ByteCount)), ByteCount: usize, hStream: CUstream)
                submit | cuMemcpyDtoHAsync_v2_ptsz => Submit(Copy);
            cuMemcpyDtoHAsync(dstHost: *mut c_void = Sink(Len(ByteCount)),
                srcDevice: CUdeviceptr_v1 = Reads(Len(ByteCount)), ByteCount: u32, hStream: CUstream) submit refuse
                => Submit(Copy);

            // Device to device.
            cuMemcpyDtoD_v2(dstDevice: CUdeviceptr = Writes(Len(ByteCount)),
                srcDevice: CUdeviceptr = Reads(Len(ByteCount)), ByteCount: usize) submit | cuMemcpyDtoD_v2_ptds
                => Submit(Copy);
            cuMemcpyDtoD(dstDevice: CUdeviceptr_v1 = Writes(Len(ByteCount)),
                srcDevice: CUdeviceptr_v1 = Reads(Len(ByteCount)), ByteCount: u32) submit refuse => Submit(Copy);
            cuMemcpyDtoDAsync_v2(dstDevice: CUdeviceptr = Writes(Len(ByteCount)),
                srcDevice: CUdeviceptr = Reads(Len(ByteCount)), ByteCount: usize, hStream: CUstream)
                submit | cuMemcpyDtoDAsync_v2_ptsz => Submit(Copy);
            cuMemcpyDtoDAsync(dstDevice: CUdeviceptr_v1 = Writes(Len(ByteCount)),
                srcDevice: CUdeviceptr_v1 = Reads(Len(ByteCount)), ByteCount: u32, hStream: CUstream) submit refuse
                => Submit(Copy);

            // Arrays, linear.
            cuMemcpyDtoA_v2(dstArray: CUarray, dstOffset: usize, srcDevice: CUdeviceptr = Reads(Len(ByteCount)),
                ByteCount: usize) submit | cuMemcpyDtoA_v2_ptds => Submit(Copy);
            cuMemcpyDtoA(dstArray: CUarray, dstOffset: u32, srcDevice: CUdeviceptr_v1 = Reads(Len(ByteCount)),
                ByteCount: u32) submit refuse => Submit(Copy);
            cuMemcpyAtoD_v2(dstDevice: CUdeviceptr = Writes(Len(ByteCount)), srcArray: CUarray, srcOffset: usize,
                ByteCount: usize) submit | cuMemcpyAtoD_v2_ptds => Submit(Copy);
            cuMemcpyAtoD(dstDevice: CUdeviceptr_v1 = Writes(Len(ByteCount)), srcArray: CUarray, srcOffset: u32,
                ByteCount: u32) submit refuse => Submit(Copy);
            cuMemcpyAtoA_v2(dstArray: CUarray, dstOffset: usize, srcArray: CUarray, srcOffset: usize,
                ByteCount: usize) submit | cuMemcpyAtoA_v2_ptds => Submit(Copy);
            cuMemcpyAtoA(dstArray: CUarray, dstOffset: u32, srcArray: CUarray, srcOffset: u32, ByteCount: u32) submit
                => Submit(Copy);
            cuMemcpyHtoA_v2(dstArray: CUarray, dstOffset: usize, srcHost: *const c_void = Source(Len(ByteCount)),
                ByteCount: usize) copy | cuMemcpyHtoA_v2_ptds => Submit(Copy);
            cuMemcpyHtoA(dstArray: CUarray, dstOffset: u32, srcHost: *const c_void = Source(Len(ByteCount)),
                ByteCount: u32) copy => Submit(Copy);
            cuMemcpyHtoAAsync_v2(dstArray: CUarray, dstOffset: usize, srcHost: *const c_void = Source(Len(ByteCount)),
                ByteCount: usize, hStream: CUstream) submit | cuMemcpyHtoAAsync_v2_ptsz => Submit(Copy);
            cuMemcpyHtoAAsync(dstArray: CUarray, dstOffset: u32, srcHost: *const c_void = Source(Len(ByteCount)),
                ByteCount: u32, hStream: CUstream) submit => Submit(Copy);
            cuMemcpyAtoH_v2(dstHost: *mut c_void = Sink(Len(ByteCount)), srcArray: CUarray, srcOffset: usize,
                ByteCount: usize) copy | cuMemcpyAtoH_v2_ptds => Submit(Copy);
            cuMemcpyAtoH(dstHost: *mut c_void = Sink(Len(ByteCount)), srcArray: CUarray, srcOffset: u32,
                ByteCount: u32) copy => Submit(Copy);
            cuMemcpyAtoHAsync_v2(dstHost: *mut c_void = Sink(Len(ByteCount)), srcArray: CUarray, srcOffset: usize,
                ByteCount: usize, hStream: CUstream) submit | cuMemcpyAtoHAsync_v2_ptsz => Submit(Copy);
            cuMemcpyAtoHAsync(dstHost: *mut c_void = Sink(Len(ByteCount)), srcArray: CUarray, srcOffset: u32,
                ByteCount: u32, hStream: CUstream) submit => Submit(Copy);

            // Rectangles and boxes.
            cuMemcpy2D_v2(pCopy: *const CUDA_MEMCPY2D = In(One)) copy | cuMemcpy2D_v2_ptds => Submit(Copy);
            cuMemcpy2D(pCopy: *const CUDA_MEMCPY2D_v1 = In(One)) copy => Submit(Copy);
            cuMemcpy2DUnaligned_v2(pCopy: *const CUDA_MEMCPY2D = In(One)) copy | cuMemcpy2DUnaligned_v2_ptds
                => Submit(Copy);
            cuMemcpy2DUnaligned(pCopy: *const CUDA_MEMCPY2D_v1 = In(One)) copy => Submit(Copy);
            cuMemcpy2DAsync_v2(pCopy: *const CUDA_MEMCPY2D = In(One), hStream: CUstream)
                submit | cuMemcpy2DAsync_v2_ptsz => Submit(Copy);
            cuMemcpy2DAsync(pCopy: *const CUDA_MEMCPY2D_v1 = In(One), hStream: CUstream) submit => Submit(Copy);
            cuMemcpy3D_v2(pCopy: *const CUDA_MEMCPY3D = In(One)) copy | cuMemcpy3D_v2_ptds => Submit(Copy);
            cuMemcpy3D(pCopy: *const CUDA_MEMCPY3D_v1 = In(One)) copy => Submit(Copy);
            cuMemcpy3DAsync_v2(pCopy: *const CUDA_MEMCPY3D = In(One), hStream: CUstream)
                submit | cuMemcpy3DAsync_v2_ptsz => Submit(Copy);
            cuMemcpy3DAsync(pCopy: *const CUDA_MEMCPY3D_v1 = In(One), hStream: CUstream) submit => Submit(Copy);
            cuMemcpy3DPeer(pCopy: *const CUDA_MEMCPY3D_PEER = In(One)) copy | cuMemcpy3DPeer_ptds => Submit(Copy);
            cuMemcpy3DPeerAsync(pCopy: *const CUDA_MEMCPY3D_PEER = In(One), hStream: CUstream)
                submit | cuMemcpy3DPeerAsync_ptsz => Submit(Copy);

            // Batches. The index of what failed may be left as it was where all went well.
            cuMemcpyBatchAsync_v2(dsts: *mut CUdeviceptr = WritesEach { count, sizes },
                srcs: *mut CUdeviceptr = ReadsEach { count, sizes }, sizes: *mut usize = In(Len(count)), count: usize,
                attrs: *mut CUmemcpyAttributes = In(Len(numAttrs)), attrsIdxs: *mut usize = In(Len(numAttrs)),
                numAttrs: usize, hStream: CUstream) submit | cuMemcpyBatchAsync_v2_ptsz => Submit(UnifiedCopy);
            cuMemcpyBatchAsync(dsts: *mut CUdeviceptr = WritesEach { count, sizes },
                srcs: *mut CUdeviceptr = ReadsEach { count, sizes }, sizes: *mut usize = In(Len(count)), count: usize,
                attrs: *mut CUmemcpyAttributes = In(Len(numAttrs)), attrsIdxs: *mut usize = In(Len(numAttrs)),
                numAttrs: usize, failIdx: *mut usize = InOut(One), hStream: CUstream) submit | cuMemcpyBatchAsync_ptsz
                => Submit(UnifiedCopy);
            cuMemcpy3DBatchAsync_v2(numOps: usize, opList: *mut CUDA_MEMCPY3D_BATCH_OP = In(Len(numOps)), flags: u64,
                hStream: CUstream) submit | cuMemcpy3DBatchAsync_v2_ptsz => Submit(Copy);
            cuMemcpy3DBatchAsync(numOps: usize, opList: *mut CUDA_MEMCPY3D_BATCH_OP = In(Len(numOps)),
                failIdx: *mut usize = InOut(One), flags: u64, hStream: CUstream) submit | cuMemcpy3DBatchAsync_ptsz
                => Submit(Copy);
            // One copy with what a batch can say of each of its copies.
            cuMemcpyWithAttributesAsync(dst: CUdeviceptr = Writes(Len(size)), src: CUdeviceptr = Reads(Len(size)),
                size: usize, attr: *mut CUmemcpyAttributes = In(One), hStream: CUstream)
                submit | cuMemcpyWithAttributesAsync_ptsz => Submit(UnifiedCopy);
            cuMemcpy3DWithAttributesAsync(op: *mut CUDA_MEMCPY3D_BATCH_OP = In(One), flags: u64, hStream: CUstream)
                submit | cuMemcpy3DWithAttributesAsync_ptsz => Submit(Copy);
            cuMemBatchDecompressAsync(paramsArray: *mut CUmemDecompressParams = In(Len(count)), count: usize,
                flags: u32, errorIndex: *mut usize = Volatile(One), stream: CUstream)
                submit | cuMemBatchDecompressAsync_ptsz => Submit(Decompress);

            // Fills.
            cuMemsetD8_v2(dstDevice: CUdeviceptr = Writes(Len(N)), uc: u8, N: usize) submit | cuMemsetD8_v2_ptds
                => Submit(Fill);
            cuMemsetD8(dstDevice: CUdeviceptr_v1 = Writes(Len(N)), uc: u8, N: u32) submit refuse => Submit(Fill);
            cuMemsetD8Async(dstDevice: CUdeviceptr = Writes(Len(N)), uc: u8, N: usize, hStream: CUstream)
                submit | cuMemsetD8Async_ptsz => Submit(Fill);
            cuMemsetD16_v2(dstDevice: CUdeviceptr = Writes(Scaled(N, 2)), us: u16, N: usize)
                submit | cuMemsetD16_v2_ptds => Submit(Fill);
            cuMemsetD16(dstDevice: CUdeviceptr_v1 = Writes(Scaled(N, 2)), us: u16, N: u32) submit refuse
                => Submit(Fill);
            cuMemsetD16Async(dstDevice: CUdeviceptr = Writes(Scaled(N, 2)), us: u16, N: usize, hStream: CUstream)
                submit | cuMemsetD16Async_ptsz => Submit(Fill);
            cuMemsetD32_v2(dstDevice: CUdeviceptr = Writes(Scaled(N, 4)), ui: u32, N: usize)
                submit | cuMemsetD32_v2_ptds => Submit(Fill);
            cuMemsetD32(dstDevice: CUdeviceptr_v1 = Writes(Scaled(N, 4)), ui: u32, N: u32) submit refuse
                => Submit(Fill);
            cuMemsetD32Async(dstDevice: CUdeviceptr = Writes(Scaled(N, 4)), ui: u32, N: usize, hStream: CUstream)
                submit | cuMemsetD32Async_ptsz => Submit(Fill);
            cuMemsetD2D8_v2(
                dstDevice: CUdeviceptr = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 1 }),
                dstPitch: usize, uc: u8, Width: usize, Height: usize) submit | cuMemsetD2D8_v2_ptds => Submit(Fill);
            cuMemsetD2D8(
                dstDevice: CUdeviceptr_v1 = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 1 }),
                dstPitch: u32, uc: u8, Width: u32, Height: u32) submit refuse => Submit(Fill);
            cuMemsetD2D8Async(
                dstDevice: CUdeviceptr = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 1 }),
                dstPitch: usize, uc: u8, Width: usize, Height: usize, hStream: CUstream)
                submit | cuMemsetD2D8Async_ptsz => Submit(Fill);
            cuMemsetD2D16_v2(
                dstDevice: CUdeviceptr = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 2 }),
                dstPitch: usize, us: u16, Width: usize, Height: usize) submit | cuMemsetD2D16_v2_ptds => Submit(Fill);
            cuMemsetD2D16(
                dstDevice: CUdeviceptr_v1 = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 2 }),
                dstPitch: u32, us: u16, Width: u32, Height: u32) submit refuse => Submit(Fill);
            cuMemsetD2D16Async(
                dstDevice: CUdeviceptr = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 2 }),
                dstPitch: usize, us: u16, Width: usize, Height: usize, hStream: CUstream)
                submit | cuMemsetD2D16Async_ptsz => Submit(Fill);
            cuMemsetD2D32_v2(
                dstDevice: CUdeviceptr = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 4 }),
                dstPitch: usize, ui: u32, Width: usize, Height: usize) submit | cuMemsetD2D32_v2_ptds => Submit(Fill);
            cuMemsetD2D32(
                dstDevice: CUdeviceptr_v1 = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 4 }),
                dstPitch: u32, ui: u32, Width: u32, Height: u32) submit refuse => Submit(Fill);
            cuMemsetD2D32Async(
                dstDevice: CUdeviceptr = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 4 }),
                dstPitch: usize, ui: u32, Width: usize, Height: usize, hStream: CUstream)
                submit | cuMemsetD2D32Async_ptsz => Submit(Fill);

            // Moves of managed memory: replay has none that could move.
            cuMemPrefetchAsync_v2(devPtr: CUdeviceptr, count: usize, location: CUmemLocation, flags: u32,
                hStream: CUstream) submit skip | cuMemPrefetchAsync_v2_ptsz => Submit(Migrate);
            cuMemPrefetchAsync(devPtr: CUdeviceptr, count: usize, dstDevice: CUdevice, hStream: CUstream)
                submit skip | cuMemPrefetchAsync_ptsz => Submit(Migrate);
            cuMemPrefetchBatchAsync(dptrs: *mut CUdeviceptr = In(Len(count)), sizes: *mut usize = In(Len(count)),
                count: usize, prefetchLocs: *mut CUmemLocation = In(Len(numPrefetchLocs)),
                prefetchLocIdxs: *mut usize = In(Len(numPrefetchLocs)), numPrefetchLocs: usize, flags: u64,
                hStream: CUstream) submit skip | cuMemPrefetchBatchAsync_ptsz => Submit(Migrate);
            cuMemDiscardBatchAsync(dptrs: *mut CUdeviceptr = In(Len(count)), sizes: *mut usize = In(Len(count)),
                count: usize, flags: u64, hStream: CUstream) submit skip | cuMemDiscardBatchAsync_ptsz
                => Submit(Migrate);
            cuMemDiscardAndPrefetchBatchAsync(dptrs: *mut CUdeviceptr = In(Len(count)),
                sizes: *mut usize = In(Len(count)), count: usize,
                prefetchLocs: *mut CUmemLocation = In(Len(numPrefetchLocs)),
                prefetchLocIdxs: *mut usize = In(Len(numPrefetchLocs)), numPrefetchLocs: usize, flags: u64,
                hStream: CUstream) submit skip | cuMemDiscardAndPrefetchBatchAsync_ptsz => Submit(Migrate);
        }
    };
}

describe_family!(copy);
