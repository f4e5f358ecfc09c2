//! Registered resources of graphics APIs: mapping, access and unmapping. They are not replayable, because no
//! graphics API fills them in a replay.

#[macro_export]
macro_rules! graphics {
    ($($with:tt)+) => {
        $($with)+! {
            "graphics";
            cuGraphicsResourceSetMapFlags_v2(resource: CUgraphicsResource,
                flags: u32 = CUgraphicsMapResourceFlags::BITS) state refuse;
            cuGraphicsResourceSetMapFlags(resource: CUgraphicsResource,
                flags: u32 = CUgraphicsMapResourceFlags::BITS) state refuse;
            cuGraphicsMapResources(count: u32, resources: *mut CUgraphicsResource = In(Len(count)), hStream: CUstream)
                submit refuse | cuGraphicsMapResources_ptsz => Submit(MapResource);
            cuGraphicsUnmapResources(count: u32, resources: *mut CUgraphicsResource = In(Len(count)),
                hStream: CUstream) submit refuse | cuGraphicsUnmapResources_ptsz => Submit(MapResource);
            cuGraphicsResourceGetMappedPointer_v2(pDevPtr: *mut CUdeviceptr = Out(One), pSize: *mut usize = Out(One),
                resource: CUgraphicsResource) query refuse;
            cuGraphicsResourceGetMappedPointer(pDevPtr: *mut CUdeviceptr_v1 = Out(One), pSize: *mut u32 = Out(One),
                resource: CUgraphicsResource) query refuse;
            cuGraphicsResourceGetMappedMipmappedArray(pMipmappedArray: *mut CUmipmappedArray = Out(One),
                resource: CUgraphicsResource) query refuse;
            cuGraphicsSubResourceGetMappedArray(pArray: *mut CUarray = Out(One), resource: CUgraphicsResource,
                arrayIndex: u32, mipLevel: u32) query refuse;
            cuGraphicsUnregisterResource(resource: CUgraphicsResource = Destroy) destroy refuse;
        }
    };
}

describe_family!(graphics);
