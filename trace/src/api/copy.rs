//! Copies, fills, and moves of managed memory.
//!
//! Class `copy` has a host side and is done with it on return; a copy between devices only is queued (`submit`).
//! Functions of the 32-bit ancestor answer `CUDA_ERROR_INVALID_CONTEXT` in any context of today, and the context of their time,
//! `cuCtxCreate`'s, is out of memory (driver 580).

#[macro_export]
macro_rules! copy {
    ($($with:tt)+) => {
        $($with)+! {
            "copy";
            // Linear, unified addresses.
            cuMemcpy(dst: CUdeviceptr = Writes(Len(ByteCount)), src: CUdeviceptr = Reads(Len(ByteCount)),
                ByteCount: usize) copy | cuMemcpy_ptds;
            cuMemcpyAsync(dst: CUdeviceptr = Writes(Len(ByteCount)), src: CUdeviceptr = Reads(Len(ByteCount)),
                ByteCount: usize, hStream: CUstream) submit | cuMemcpyAsync_ptsz;
            cuMemcpyPeer(dstDevice: CUdeviceptr = Writes(Len(ByteCount)), dstContext: CUcontext,
                srcDevice: CUdeviceptr = Reads(Len(ByteCount)), srcContext: CUcontext, ByteCount: usize)
                submit | cuMemcpyPeer_ptds;
            cuMemcpyPeerAsync(dstDevice: CUdeviceptr = Writes(Len(ByteCount)), dstContext: CUcontext,
                srcDevice: CUdeviceptr = Reads(Len(ByteCount)), srcContext: CUcontext, ByteCount: usize,
                hStream: CUstream) submit | cuMemcpyPeerAsync_ptsz;

            // Host to device.
            cuMemcpyHtoD_v2(dstDevice: CUdeviceptr = Writes(Len(ByteCount)),
                srcHost: *const c_void = Source(Len(ByteCount)), ByteCount: usize) copy | cuMemcpyHtoD_v2_ptds;
            cuMemcpyHtoD(dstDevice: CUdeviceptr_v1 = Writes(Len(ByteCount)),
                srcHost: *const c_void = Source(Len(ByteCount)), ByteCount: u32) copy refuse;
            cuMemcpyHtoDAsync_v2(dstDevice: CUdeviceptr = Writes(Len(ByteCount)),
                srcHost: *const c_void = Source(Len(ByteCount)), ByteCount: usize, hStream: CUstream)
                submit | cuMemcpyHtoDAsync_v2_ptsz;
            cuMemcpyHtoDAsync(dstDevice: CUdeviceptr_v1 = Writes(Len(ByteCount)),
                srcHost: *const c_void = Source(Len(ByteCount)), ByteCount: u32, hStream: CUstream) submit refuse;

            // Device to host.
            cuMemcpyDtoH_v2(dstHost: *mut c_void = Sink(Len(ByteCount)),
                srcDevice: CUdeviceptr = Reads(Len(ByteCount)), ByteCount: usize) copy | cuMemcpyDtoH_v2_ptds;
            cuMemcpyDtoH(dstHost: *mut c_void = Sink(Len(ByteCount)),
                srcDevice: CUdeviceptr_v1 = Reads(Len(ByteCount)), ByteCount: u32) copy refuse;
            cuMemcpyDtoHAsync_v2(dstHost: *mut c_void = Sink(Len(ByteCount)),
                srcDevice: CUdeviceptr = Reads(Len(ByteCount)), ByteCount: usize, hStream: CUstream)
                submit | cuMemcpyDtoHAsync_v2_ptsz;
            cuMemcpyDtoHAsync(dstHost: *mut c_void = Sink(Len(ByteCount)),
                srcDevice: CUdeviceptr_v1 = Reads(Len(ByteCount)), ByteCount: u32, hStream: CUstream) submit refuse;

            // Device to device.
            cuMemcpyDtoD_v2(dstDevice: CUdeviceptr = Writes(Len(ByteCount)),
                srcDevice: CUdeviceptr = Reads(Len(ByteCount)), ByteCount: usize) submit | cuMemcpyDtoD_v2_ptds;
            cuMemcpyDtoD(dstDevice: CUdeviceptr_v1 = Writes(Len(ByteCount)),
                srcDevice: CUdeviceptr_v1 = Reads(Len(ByteCount)), ByteCount: u32) submit refuse;
            cuMemcpyDtoDAsync_v2(dstDevice: CUdeviceptr = Writes(Len(ByteCount)),
                srcDevice: CUdeviceptr = Reads(Len(ByteCount)), ByteCount: usize, hStream: CUstream)
                submit | cuMemcpyDtoDAsync_v2_ptsz;
            cuMemcpyDtoDAsync(dstDevice: CUdeviceptr_v1 = Writes(Len(ByteCount)),
                srcDevice: CUdeviceptr_v1 = Reads(Len(ByteCount)), ByteCount: u32, hStream: CUstream) submit refuse;

            // Arrays, linear.
            cuMemcpyDtoA_v2(dstArray: CUarray, dstOffset: usize, srcDevice: CUdeviceptr = Reads(Len(ByteCount)),
                ByteCount: usize) submit | cuMemcpyDtoA_v2_ptds;
            cuMemcpyDtoA(dstArray: CUarray, dstOffset: u32, srcDevice: CUdeviceptr_v1 = Reads(Len(ByteCount)),
                ByteCount: u32) submit refuse;
            cuMemcpyAtoD_v2(dstDevice: CUdeviceptr = Writes(Len(ByteCount)), srcArray: CUarray, srcOffset: usize,
                ByteCount: usize) submit | cuMemcpyAtoD_v2_ptds;
            cuMemcpyAtoD(dstDevice: CUdeviceptr_v1 = Writes(Len(ByteCount)), srcArray: CUarray, srcOffset: u32,
                ByteCount: u32) submit refuse;
            cuMemcpyAtoA_v2(dstArray: CUarray, dstOffset: usize, srcArray: CUarray, srcOffset: usize,
                ByteCount: usize) submit | cuMemcpyAtoA_v2_ptds;
            cuMemcpyAtoA(dstArray: CUarray, dstOffset: u32, srcArray: CUarray, srcOffset: u32, ByteCount: u32) submit;
            cuMemcpyHtoA_v2(dstArray: CUarray, dstOffset: usize, srcHost: *const c_void = Source(Len(ByteCount)),
                ByteCount: usize) copy | cuMemcpyHtoA_v2_ptds;
            cuMemcpyHtoA(dstArray: CUarray, dstOffset: u32, srcHost: *const c_void = Source(Len(ByteCount)),
                ByteCount: u32) copy;
            cuMemcpyHtoAAsync_v2(dstArray: CUarray, dstOffset: usize, srcHost: *const c_void = Source(Len(ByteCount)),
                ByteCount: usize, hStream: CUstream) submit | cuMemcpyHtoAAsync_v2_ptsz;
            cuMemcpyHtoAAsync(dstArray: CUarray, dstOffset: u32, srcHost: *const c_void = Source(Len(ByteCount)),
                ByteCount: u32, hStream: CUstream) submit;
            cuMemcpyAtoH_v2(dstHost: *mut c_void = Sink(Len(ByteCount)), srcArray: CUarray, srcOffset: usize,
                ByteCount: usize) copy | cuMemcpyAtoH_v2_ptds;
            cuMemcpyAtoH(dstHost: *mut c_void = Sink(Len(ByteCount)), srcArray: CUarray, srcOffset: u32,
                ByteCount: u32) copy;
            cuMemcpyAtoHAsync_v2(dstHost: *mut c_void = Sink(Len(ByteCount)), srcArray: CUarray, srcOffset: usize,
                ByteCount: usize, hStream: CUstream) submit | cuMemcpyAtoHAsync_v2_ptsz;
            cuMemcpyAtoHAsync(dstHost: *mut c_void = Sink(Len(ByteCount)), srcArray: CUarray, srcOffset: u32,
                ByteCount: u32, hStream: CUstream) submit;

            // Rectangles and boxes.
            cuMemcpy2D_v2(pCopy: *const CUDA_MEMCPY2D = In(One)) copy | cuMemcpy2D_v2_ptds;
            cuMemcpy2D(pCopy: *const CUDA_MEMCPY2D_v1 = In(One)) copy;
            cuMemcpy2DUnaligned_v2(pCopy: *const CUDA_MEMCPY2D = In(One)) copy | cuMemcpy2DUnaligned_v2_ptds;
            cuMemcpy2DUnaligned(pCopy: *const CUDA_MEMCPY2D_v1 = In(One)) copy;
            cuMemcpy2DAsync_v2(pCopy: *const CUDA_MEMCPY2D = In(One), hStream: CUstream)
                submit | cuMemcpy2DAsync_v2_ptsz;
            cuMemcpy2DAsync(pCopy: *const CUDA_MEMCPY2D_v1 = In(One), hStream: CUstream) submit;
            cuMemcpy3D_v2(pCopy: *const CUDA_MEMCPY3D = In(One)) copy | cuMemcpy3D_v2_ptds;
            cuMemcpy3D(pCopy: *const CUDA_MEMCPY3D_v1 = In(One)) copy;
            cuMemcpy3DAsync_v2(pCopy: *const CUDA_MEMCPY3D = In(One), hStream: CUstream)
                submit | cuMemcpy3DAsync_v2_ptsz;
            cuMemcpy3DAsync(pCopy: *const CUDA_MEMCPY3D_v1 = In(One), hStream: CUstream) submit;
            cuMemcpy3DPeer(pCopy: *const CUDA_MEMCPY3D_PEER = In(One)) copy | cuMemcpy3DPeer_ptds;
            cuMemcpy3DPeerAsync(pCopy: *const CUDA_MEMCPY3D_PEER = In(One), hStream: CUstream)
                submit | cuMemcpy3DPeerAsync_ptsz;

            // Batches. The index of what failed may be left as it was where all went well.
            cuMemcpyBatchAsync_v2(dsts: *mut CUdeviceptr = WritesEach { count, sizes },
                srcs: *mut CUdeviceptr = ReadsEach { count, sizes }, sizes: *mut usize = In(Len(count)), count: usize,
                attrs: *mut CUmemcpyAttributes = In(Len(numAttrs)), attrsIdxs: *mut usize = In(Len(numAttrs)),
                numAttrs: usize, hStream: CUstream) submit | cuMemcpyBatchAsync_v2_ptsz;
            cuMemcpyBatchAsync(dsts: *mut CUdeviceptr = WritesEach { count, sizes },
                srcs: *mut CUdeviceptr = ReadsEach { count, sizes }, sizes: *mut usize = In(Len(count)), count: usize,
                attrs: *mut CUmemcpyAttributes = In(Len(numAttrs)), attrsIdxs: *mut usize = In(Len(numAttrs)),
                numAttrs: usize, failIdx: *mut usize = InOut(One), hStream: CUstream) submit | cuMemcpyBatchAsync_ptsz;
            cuMemcpy3DBatchAsync_v2(numOps: usize, opList: *mut CUDA_MEMCPY3D_BATCH_OP = In(Len(numOps)), flags: u64,
                hStream: CUstream) submit | cuMemcpy3DBatchAsync_v2_ptsz;
            cuMemcpy3DBatchAsync(numOps: usize, opList: *mut CUDA_MEMCPY3D_BATCH_OP = In(Len(numOps)),
                failIdx: *mut usize = InOut(One), flags: u64, hStream: CUstream) submit | cuMemcpy3DBatchAsync_ptsz;
            // One copy with what a batch can say of each of its copies.
            cuMemcpyWithAttributesAsync(dst: CUdeviceptr = Writes(Len(size)), src: CUdeviceptr = Reads(Len(size)),
                size: usize, attr: *mut CUmemcpyAttributes = In(One), hStream: CUstream)
                submit | cuMemcpyWithAttributesAsync_ptsz;
            cuMemcpy3DWithAttributesAsync(op: *mut CUDA_MEMCPY3D_BATCH_OP = In(One), flags: u64, hStream: CUstream)
                submit | cuMemcpy3DWithAttributesAsync_ptsz;
            cuMemBatchDecompressAsync(paramsArray: *mut CUmemDecompressParams = In(Len(count)), count: usize,
                flags: u32, errorIndex: *mut usize = Volatile(One), stream: CUstream)
                submit | cuMemBatchDecompressAsync_ptsz;

            // Fills.
            cuMemsetD8_v2(dstDevice: CUdeviceptr = Writes(Len(N)), uc: u8, N: usize) submit | cuMemsetD8_v2_ptds;
            cuMemsetD8(dstDevice: CUdeviceptr_v1 = Writes(Len(N)), uc: u8, N: u32) submit refuse;
            cuMemsetD8Async(dstDevice: CUdeviceptr = Writes(Len(N)), uc: u8, N: usize, hStream: CUstream)
                submit | cuMemsetD8Async_ptsz;
            cuMemsetD16_v2(dstDevice: CUdeviceptr = Writes(Scaled(N, 2)), us: u16, N: usize)
                submit | cuMemsetD16_v2_ptds;
            cuMemsetD16(dstDevice: CUdeviceptr_v1 = Writes(Scaled(N, 2)), us: u16, N: u32) submit refuse;
            cuMemsetD16Async(dstDevice: CUdeviceptr = Writes(Scaled(N, 2)), us: u16, N: usize, hStream: CUstream)
                submit | cuMemsetD16Async_ptsz;
            cuMemsetD32_v2(dstDevice: CUdeviceptr = Writes(Scaled(N, 4)), ui: u32, N: usize)
                submit | cuMemsetD32_v2_ptds;
            cuMemsetD32(dstDevice: CUdeviceptr_v1 = Writes(Scaled(N, 4)), ui: u32, N: u32) submit refuse;
            cuMemsetD32Async(dstDevice: CUdeviceptr = Writes(Scaled(N, 4)), ui: u32, N: usize, hStream: CUstream)
                submit | cuMemsetD32Async_ptsz;
            cuMemsetD2D8_v2(
                dstDevice: CUdeviceptr = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 1 }),
                dstPitch: usize, uc: u8, Width: usize, Height: usize) submit | cuMemsetD2D8_v2_ptds;
            cuMemsetD2D8(
                dstDevice: CUdeviceptr_v1 = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 1 }),
                dstPitch: u32, uc: u8, Width: u32, Height: u32) submit refuse;
            cuMemsetD2D8Async(
                dstDevice: CUdeviceptr = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 1 }),
                dstPitch: usize, uc: u8, Width: usize, Height: usize, hStream: CUstream)
                submit | cuMemsetD2D8Async_ptsz;
            cuMemsetD2D16_v2(
                dstDevice: CUdeviceptr = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 2 }),
                dstPitch: usize, us: u16, Width: usize, Height: usize) submit | cuMemsetD2D16_v2_ptds;
            cuMemsetD2D16(
                dstDevice: CUdeviceptr_v1 = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 2 }),
                dstPitch: u32, us: u16, Width: u32, Height: u32) submit refuse;
            cuMemsetD2D16Async(
                dstDevice: CUdeviceptr = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 2 }),
                dstPitch: usize, us: u16, Width: usize, Height: usize, hStream: CUstream)
                submit | cuMemsetD2D16Async_ptsz;
            cuMemsetD2D32_v2(
                dstDevice: CUdeviceptr = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 4 }),
                dstPitch: usize, ui: u32, Width: usize, Height: usize) submit | cuMemsetD2D32_v2_ptds;
            cuMemsetD2D32(
                dstDevice: CUdeviceptr_v1 = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 4 }),
                dstPitch: u32, ui: u32, Width: u32, Height: u32) submit refuse;
            cuMemsetD2D32Async(
                dstDevice: CUdeviceptr = Writes(Rect { pitch: dstPitch, width: Width, height: Height, element: 4 }),
                dstPitch: usize, ui: u32, Width: usize, Height: usize, hStream: CUstream)
                submit | cuMemsetD2D32Async_ptsz;

            // Moves of managed memory: replay has none that could move.
            cuMemPrefetchAsync_v2(devPtr: CUdeviceptr, count: usize, location: CUmemLocation, flags: u32,
                hStream: CUstream) submit skip | cuMemPrefetchAsync_v2_ptsz;
            cuMemPrefetchAsync(devPtr: CUdeviceptr, count: usize, dstDevice: CUdevice, hStream: CUstream)
                submit skip | cuMemPrefetchAsync_ptsz;
            cuMemPrefetchBatchAsync(dptrs: *mut CUdeviceptr = In(Len(count)), sizes: *mut usize = In(Len(count)),
                count: usize, prefetchLocs: *mut CUmemLocation = In(Len(numPrefetchLocs)),
                prefetchLocIdxs: *mut usize = In(Len(numPrefetchLocs)), numPrefetchLocs: usize, flags: u64,
                hStream: CUstream) submit skip | cuMemPrefetchBatchAsync_ptsz;
            cuMemDiscardBatchAsync(dptrs: *mut CUdeviceptr = In(Len(count)), sizes: *mut usize = In(Len(count)),
                count: usize, flags: u64, hStream: CUstream) submit skip | cuMemDiscardBatchAsync_ptsz;
            cuMemDiscardAndPrefetchBatchAsync(dptrs: *mut CUdeviceptr = In(Len(count)),
                sizes: *mut usize = In(Len(count)), count: usize,
                prefetchLocs: *mut CUmemLocation = In(Len(numPrefetchLocs)),
                prefetchLocIdxs: *mut usize = In(Len(numPrefetchLocs)), numPrefetchLocs: usize, flags: u64,
                hStream: CUstream) submit skip | cuMemDiscardAndPrefetchBatchAsync_ptsz;
        }
    };
}

describe_family!(copy);
