//! OpenGL, VDPAU and EGL objects as CUDA resources. They exist only in the recorded process, so a replay
//! refuses them.

#[macro_export]
macro_rules! gl {
    ($($with:tt)+) => {
        $($with)+! {
            "gl";
            // OpenGL
            cuGLGetDevices_v2(pCudaDeviceCount: *mut u32 = Out(One),
                pCudaDevices: *mut CUdevice = Out(LenUpTo(cudaDeviceCount, pCudaDeviceCount)), cudaDeviceCount: u32,
                deviceList: CUGLDeviceList) query refuse;
            cuGLGetDevices(pCudaDeviceCount: *mut u32 = Out(One),
                pCudaDevices: *mut CUdevice = Out(LenUpTo(cudaDeviceCount, pCudaDeviceCount)), cudaDeviceCount: u32,
                deviceList: CUGLDeviceList) query refuse;
            cuGraphicsGLRegisterBuffer(pCudaResource: *mut CUgraphicsResource = Create(One), buffer: u32,
                Flags: u32 = CUgraphicsRegisterFlags::BITS) create refuse;
            cuGraphicsGLRegisterImage(pCudaResource: *mut CUgraphicsResource = Create(One), image: u32, target: u32,
                Flags: u32 = CUgraphicsRegisterFlags::BITS) create refuse;

            // OpenGL before resources: contexts and buffer objects
            cuGLInit() state refuse;
            cuGLCtxCreate_v2(pCtx: *mut CUcontext = Create(One), Flags: u32 = CUctx_flags::BITS,
                device: CUdevice) create refuse;
            cuGLCtxCreate(pCtx: *mut CUcontext = Create(One), Flags: u32 = CUctx_flags::BITS,
                device: CUdevice) create refuse;
            cuGLRegisterBufferObject(buffer: u32) state refuse;
            cuGLSetBufferObjectMapFlags(buffer: u32, Flags: u32 = CUGLmap_flags::BITS) state refuse;
            cuGLMapBufferObject_v2(dptr: *mut CUdeviceptr = Create(One), size: *mut usize = Out(One),
                buffer: u32) allocate refuse | cuGLMapBufferObject_v2_ptds
                => Allocate { kind: Imported, bytes: Untold };
            cuGLMapBufferObject(dptr: *mut CUdeviceptr_v1 = Create(One), size: *mut u32 = Out(One),
                buffer: u32) allocate refuse => Allocate { kind: Imported, bytes: Untold };
            cuGLMapBufferObjectAsync_v2(dptr: *mut CUdeviceptr = Create(One), size: *mut usize = Out(One), buffer: u32,
                hStream: CUstream) allocate refuse | cuGLMapBufferObjectAsync_v2_ptsz
                => Allocate { kind: Imported, bytes: Untold };
            cuGLMapBufferObjectAsync(dptr: *mut CUdeviceptr_v1 = Create(One), size: *mut u32 = Out(One), buffer: u32,
                hStream: CUstream) allocate refuse => Allocate { kind: Imported, bytes: Untold };
            cuGLUnmapBufferObject(buffer: u32) state refuse;
            cuGLUnmapBufferObjectAsync(buffer: u32, hStream: CUstream) state refuse;
            cuGLUnregisterBufferObject(buffer: u32) state refuse;

            // VDPAU
            cuVDPAUGetDevice(pDevice: *mut CUdevice = Out(One), vdpDevice: VdpDevice,
                vdpGetProcAddress: *mut VdpGetProcAddress = Callback) query refuse;
            cuVDPAUCtxCreate_v2(pCtx: *mut CUcontext = Create(One), flags: u32 = CUctx_flags::BITS, device: CUdevice,
                vdpDevice: VdpDevice, vdpGetProcAddress: *mut VdpGetProcAddress = Callback) create refuse;
            cuVDPAUCtxCreate(pCtx: *mut CUcontext = Create(One), flags: u32 = CUctx_flags::BITS, device: CUdevice,
                vdpDevice: VdpDevice, vdpGetProcAddress: *mut VdpGetProcAddress = Callback) create refuse;
            cuGraphicsVDPAURegisterVideoSurface(pCudaResource: *mut CUgraphicsResource = Create(One),
                vdpSurface: VdpVideoSurface, flags: u32 = CUgraphicsMapResourceFlags::BITS) create refuse;
            cuGraphicsVDPAURegisterOutputSurface(pCudaResource: *mut CUgraphicsResource = Create(One),
                vdpSurface: VdpOutputSurface, flags: u32 = CUgraphicsMapResourceFlags::BITS) create refuse;

            // EGL images and streams
            cuGraphicsEGLRegisterImage(pCudaResource: *mut CUgraphicsResource = Create(One), image: EGLImageKHR,
                flags: u32 = CUgraphicsRegisterFlags::BITS) create refuse;
            cuGraphicsResourceGetMappedEglFrame(eglFrame: *mut CUeglFrame = Out(One), resource: CUgraphicsResource,
                index: u32, mipLevel: u32) query refuse;
            cuEGLStreamConsumerConnect(conn: *mut CUeglStreamConnection = Create(One),
                stream: EGLStreamKHR) create refuse;
            cuEGLStreamConsumerConnectWithFlags(conn: *mut CUeglStreamConnection = Create(One), stream: EGLStreamKHR,
                flags: u32) create refuse;
            cuEGLStreamConsumerDisconnect(conn: *mut CUeglStreamConnection = In(One)) destroy refuse;
            cuEGLStreamConsumerAcquireFrame(conn: *mut CUeglStreamConnection = In(One),
                pCudaResource: *mut CUgraphicsResource = Out(One), pStream: *mut CUstream = In(One),
                timeout: u32) state refuse;
            cuEGLStreamConsumerReleaseFrame(conn: *mut CUeglStreamConnection = In(One),
                pCudaResource: CUgraphicsResource, pStream: *mut CUstream = In(One)) state refuse;
            cuEGLStreamProducerConnect(conn: *mut CUeglStreamConnection = Create(One), stream: EGLStreamKHR,
                width: i32, height: i32) create refuse;
            cuEGLStreamProducerDisconnect(conn: *mut CUeglStreamConnection = In(One)) destroy refuse;
            cuEGLStreamProducerPresentFrame(conn: *mut CUeglStreamConnection = In(One), eglframe: CUeglFrame,
                pStream: *mut CUstream = In(One)) state refuse;
            cuEGLStreamProducerReturnFrame(conn: *mut CUeglStreamConnection = In(One),
                eglframe: *mut CUeglFrame = Out(One), pStream: *mut CUstream = In(One)) state refuse;
        }
    };
}

describe_family!(gl);
