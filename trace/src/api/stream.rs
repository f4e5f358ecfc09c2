//! Streams: their creation, attributes, waits, memory operations, and capture into graphs.

#[macro_export]
macro_rules! stream {
    ($($with:tt)+) => {
        $($with)+! {
            "stream";
            cuStreamCreate(phStream: *mut CUstream = Create(One), Flags: u32 = CUstream_flags::BITS) create;
            cuStreamCreateWithPriority(phStream: *mut CUstream = Create(One), flags: u32 = CUstream_flags::BITS,
                priority: i32) create;
            cuStreamDestroy_v2(hStream: CUstream = Destroy) destroy;
            cuStreamDestroy(hStream: CUstream = Destroy) destroy;

            // What a stream is.
            cuStreamGetPriority(hStream: CUstream, priority: *mut i32 = Out(One)) query | cuStreamGetPriority_ptsz;
            cuStreamGetDevice(hStream: CUstream, device: *mut CUdevice = Out(One)) query | cuStreamGetDevice_ptsz;
            cuStreamGetFlags(hStream: CUstream, flags: *mut u32 = Out(One)) query | cuStreamGetFlags_ptsz;
            cuStreamGetId(hStream: CUstream, streamId: *mut u64 = Volatile(One)) query | cuStreamGetId_ptsz;
            cuStreamGetCtx_v2(hStream: CUstream, pCtx: *mut CUcontext = Out(One), pGreenCtx: *mut CUgreenCtx = Out(One))
                query | cuStreamGetCtx_v2_ptsz;
            cuStreamGetCtx(hStream: CUstream, pctx: *mut CUcontext = Out(One)) query | cuStreamGetCtx_ptsz;
            cuStreamGetGreenCtx(hStream: CUstream, phCtx: *mut CUgreenCtx = Out(One)) query;
            cuStreamGetDevResource(hStream: CUstream, resource: *mut CUdevResource = Volatile(One),
                r#type: CUdevResourceType) query | cuStreamGetDevResource_ptsz;
            cuStreamCopyAttributes(dst: CUstream, src: CUstream) state | cuStreamCopyAttributes_ptsz;
            cuStreamGetAttribute(hStream: CUstream, attr: CUstreamAttrID,
                value_out: *mut CUstreamAttrValue = AttributeOut(attr, LAUNCH_ATTRIBUTES))
                query | cuStreamGetAttribute_ptsz;
            cuStreamSetAttribute(hStream: CUstream, attr: CUstreamAttrID,
                value: *const CUstreamAttrValue = AttributeIn(attr, LAUNCH_ATTRIBUTES))
                state | cuStreamSetAttribute_ptsz;

            // Waiting, and work without a kernel. Of polls replay waits where the answer was yes, and leaves
            // out the others.
            cuStreamQuery(hStream: CUstream) poll custom | cuStreamQuery_ptsz;
            cuStreamSynchronize(hStream: CUstream) synchronize | cuStreamSynchronize_ptsz;
            cuStreamWaitEvent(hStream: CUstream, hEvent: CUevent, Flags: u32 = CUevent_wait_flags::BITS)
                submit | cuStreamWaitEvent_ptsz => Submit(AwaitEvent);
            cuStreamAddCallback(hStream: CUstream, callback: CUstreamCallback = Callback,
                userData: *mut c_void = UserData, flags: u32) submit | cuStreamAddCallback_ptsz => Submit(HostFunction);
            // A length of 0 means the whole allocation. Managed memory is device memory in a replay.
            cuStreamAttachMemAsync(hStream: CUstream, dptr: CUdeviceptr, length: usize,
                flags: u32 = CUmemAttach_flags::BITS) submit skip | cuStreamAttachMemAsync_ptsz => Submit(Migrate);

            // Capture. What capture info should fill stays untouched unless a capture is under way.
            cuStreamBeginCapture_v2(hStream: CUstream, mode: CUstreamCaptureMode) graph | cuStreamBeginCapture_v2_ptsz
                => BeginCapture;
            cuStreamBeginCapture(hStream: CUstream) graph | cuStreamBeginCapture_ptsz => BeginCapture;
            cuStreamBeginCaptureToGraph(hStream: CUstream, hGraph: CUgraph,
                dependencies: *const CUgraphNode = In(Len(numDependencies)),
                dependencyData: *const CUgraphEdgeData = In(Len(numDependencies)), numDependencies: usize,
                mode: CUstreamCaptureMode) graph | cuStreamBeginCaptureToGraph_ptsz => BeginCapture;
            // The callback decides which nodes may stay as they were.
            cuStreamBeginRecaptureToGraph(hStream: CUstream, mode: CUstreamCaptureMode, hGraph: CUgraph,
                callbackFunc: CUgraphRecaptureCallback = Callback, userData: *mut c_void = UserData)
                graph refuse | cuStreamBeginRecaptureToGraph_ptsz => BeginCapture;
            // Into a command list of Direct3D or Vulkan.
            cuStreamBeginCaptureToCig(hStream: CUstream, streamCigCaptureParams: *mut CUstreamCigCaptureParams = In(One))
                graph refuse | cuStreamBeginCaptureToCig_ptsz => BeginCapture;
            cuStreamEndCaptureToCig(hStream: CUstream) graph refuse | cuStreamEndCaptureToCig_ptsz => EndCapture;
            cuStreamEndCapture(hStream: CUstream, phGraph: *mut CUgraph = Create(One)) graph | cuStreamEndCapture_ptsz
                => EndCapture;
            cuStreamIsCapturing(hStream: CUstream, captureStatus: *mut CUstreamCaptureStatus = Out(One))
                query | cuStreamIsCapturing_ptsz;
            cuStreamGetCaptureInfo_v3(hStream: CUstream, captureStatus_out: *mut CUstreamCaptureStatus = Out(One),
                id_out: *mut u64 = Volatile(When(captureStatus_out, CAPTURING, &One)),
                graph_out: *mut CUgraph = Out(When(captureStatus_out, CAPTURING, &One)),
                dependencies_out: *mut *const CUgraphNode = Owned(LenAt(numDependencies_out)),
                edgeData_out: *mut *const CUgraphEdgeData = Owned(LenAt(numDependencies_out)),
                numDependencies_out: *mut usize = Out(When(captureStatus_out, CAPTURING, &One)))
                query | cuStreamGetCaptureInfo_v3_ptsz;
            cuStreamGetCaptureInfo_v2(hStream: CUstream, captureStatus_out: *mut CUstreamCaptureStatus = Out(One),
                id_out: *mut u64 = Volatile(When(captureStatus_out, CAPTURING, &One)),
                graph_out: *mut CUgraph = Out(When(captureStatus_out, CAPTURING, &One)),
                dependencies_out: *mut *const CUgraphNode = Owned(LenAt(numDependencies_out)),
                numDependencies_out: *mut usize = Out(When(captureStatus_out, CAPTURING, &One)))
                query | cuStreamGetCaptureInfo_v2_ptsz;
            cuStreamGetCaptureInfo(hStream: CUstream, captureStatus_out: *mut CUstreamCaptureStatus = Out(One),
                id_out: *mut u64 = Volatile(When(captureStatus_out, CAPTURING, &One)))
                query | cuStreamGetCaptureInfo_ptsz;
            cuStreamUpdateCaptureDependencies_v2(hStream: CUstream,
                dependencies: *mut CUgraphNode = In(Len(numDependencies)),
                dependencyData: *const CUgraphEdgeData = In(Len(numDependencies)), numDependencies: usize,
                flags: u32 = CUstreamUpdateCaptureDependencies_flags::BITS)
                graph | cuStreamUpdateCaptureDependencies_v2_ptsz;
            cuStreamUpdateCaptureDependencies(hStream: CUstream,
                dependencies: *mut CUgraphNode = In(Len(numDependencies)), numDependencies: usize,
                flags: u32 = CUstreamUpdateCaptureDependencies_flags::BITS)
                graph | cuStreamUpdateCaptureDependencies_ptsz;

            // Memory operations.
            cuStreamWaitValue32_v2(stream: CUstream, addr: CUdeviceptr = Reads(Fixed(4)), value: u32,
                flags: u32 = CUstreamWaitValue_flags::BITS) submit | cuStreamWaitValue32_v2_ptsz => Submit(Value);
            cuStreamWaitValue32(stream: CUstream, addr: CUdeviceptr = Reads(Fixed(4)), value: u32,
                flags: u32 = CUstreamWaitValue_flags::BITS) submit | cuStreamWaitValue32_ptsz => Submit(Value);
            cuStreamWaitValue64_v2(stream: CUstream, addr: CUdeviceptr = Reads(Fixed(8)), value: u64,
                flags: u32 = CUstreamWaitValue_flags::BITS) submit | cuStreamWaitValue64_v2_ptsz => Submit(Value);
            cuStreamWaitValue64(stream: CUstream, addr: CUdeviceptr = Reads(Fixed(8)), value: u64,
                flags: u32 = CUstreamWaitValue_flags::BITS) submit | cuStreamWaitValue64_ptsz => Submit(Value);
            cuStreamWriteValue32_v2(stream: CUstream, addr: CUdeviceptr = Writes(Fixed(4)), value: u32,
                flags: u32 = CUstreamWriteValue_flags::BITS) submit | cuStreamWriteValue32_v2_ptsz => Submit(Value);
            cuStreamWriteValue32(stream: CUstream, addr: CUdeviceptr = Writes(Fixed(4)), value: u32,
                flags: u32 = CUstreamWriteValue_flags::BITS) submit | cuStreamWriteValue32_ptsz => Submit(Value);
            cuStreamWriteValue64_v2(stream: CUstream, addr: CUdeviceptr = Writes(Fixed(8)), value: u64,
                flags: u32 = CUstreamWriteValue_flags::BITS) submit | cuStreamWriteValue64_v2_ptsz => Submit(Value);
            cuStreamWriteValue64(stream: CUstream, addr: CUdeviceptr = Writes(Fixed(8)), value: u64,
                flags: u32 = CUstreamWriteValue_flags::BITS) submit | cuStreamWriteValue64_ptsz => Submit(Value);
            cuStreamBatchMemOp_v2(stream: CUstream, count: u32,
                paramArray: *mut CUstreamBatchMemOpParams = In(Len(count)), flags: u32)
                submit | cuStreamBatchMemOp_v2_ptsz => Submit(Value);
            cuStreamBatchMemOp(stream: CUstream, count: u32, paramArray: *mut CUstreamBatchMemOpParams = In(Len(count)),
                flags: u32) submit | cuStreamBatchMemOp_ptsz => Submit(Value);
        }
    };
}

describe_family!(stream);
