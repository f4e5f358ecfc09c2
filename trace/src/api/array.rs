//! Arrays, texture and surface references and objects, tensor maps.

#[macro_export]
macro_rules! array {
    ($($with:tt)+) => {
        $($with)+! {
            "array";
            // Arrays.
            cuArrayCreate_v2(pHandle: *mut CUarray = Create(One),
                pAllocateArray: *const CUDA_ARRAY_DESCRIPTOR = In(One)) create
                => Allocate { kind: Array, bytes: OfArray(pAllocateArray) };
            cuArrayCreate(pHandle: *mut CUarray = Create(One),
                pAllocateArray: *const CUDA_ARRAY_DESCRIPTOR_v1 = In(One)) create
                => Allocate { kind: Array, bytes: OfArray(pAllocateArray) };
            cuArrayGetDescriptor_v2(pArrayDescriptor: *mut CUDA_ARRAY_DESCRIPTOR = Out(One), hArray: CUarray) query;
            cuArrayGetDescriptor(pArrayDescriptor: *mut CUDA_ARRAY_DESCRIPTOR_v1 = Out(One), hArray: CUarray) query;
            cuArray3DCreate_v2(pHandle: *mut CUarray = Create(One),
                pAllocateArray: *const CUDA_ARRAY3D_DESCRIPTOR = In(One)) create
                => Allocate { kind: Array, bytes: OfArray(pAllocateArray) };
            cuArray3DCreate(pHandle: *mut CUarray = Create(One),
                pAllocateArray: *const CUDA_ARRAY3D_DESCRIPTOR_v1 = In(One)) create
                => Allocate { kind: Array, bytes: OfArray(pAllocateArray) };
            cuArray3DGetDescriptor_v2(pArrayDescriptor: *mut CUDA_ARRAY3D_DESCRIPTOR = Out(One), hArray: CUarray)
                query;
            cuArray3DGetDescriptor(pArrayDescriptor: *mut CUDA_ARRAY3D_DESCRIPTOR_v1 = Out(One), hArray: CUarray)
                query;
            cuArrayGetSparseProperties(sparseProperties: *mut CUDA_ARRAY_SPARSE_PROPERTIES = Volatile(One),
                array: CUarray) query;
            cuArrayGetMemoryRequirements(memoryRequirements: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS = Volatile(One),
                array: CUarray, device: CUdevice) query;
            cuArrayGetPlane(pPlaneArray: *mut CUarray = Out(One), hArray: CUarray, planeIdx: u32) query;
            cuArrayDestroy(hArray: CUarray = Destroy) destroy => Free(Array);

            // Mipmapped arrays.
            cuMipmappedArrayCreate(pHandle: *mut CUmipmappedArray = Create(One),
                pMipmappedArrayDesc: *const CUDA_ARRAY3D_DESCRIPTOR = In(One), numMipmapLevels: u32) create
                => Allocate { kind: Array, bytes: OfArray(pMipmappedArrayDesc) };
            cuMipmappedArrayGetLevel(pLevelArray: *mut CUarray = Out(One), hMipmappedArray: CUmipmappedArray,
                level: u32) query;
            cuMipmappedArrayGetSparseProperties(sparseProperties: *mut CUDA_ARRAY_SPARSE_PROPERTIES = Volatile(One),
                mipmap: CUmipmappedArray) query;
            cuMipmappedArrayGetMemoryRequirements(
                memoryRequirements: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS = Volatile(One), mipmap: CUmipmappedArray,
                device: CUdevice) query;
            cuMipmappedArrayDestroy(hMipmappedArray: CUmipmappedArray = Destroy) destroy => Free(Array);

            // Texture references.
            cuTexRefCreate(pTexRef: *mut CUtexref = Create(One)) create;
            cuTexRefDestroy(hTexRef: CUtexref = Destroy) destroy;
            cuTexRefSetArray(hTexRef: CUtexref, hArray: CUarray, Flags: u32 = CUtexRefSetArray_flags::BITS) state;
            cuTexRefSetMipmappedArray(hTexRef: CUtexref, hMipmappedArray: CUmipmappedArray,
                Flags: u32 = CUtexRefSetArray_flags::BITS) state;
            cuTexRefSetAddress_v2(ByteOffset: *mut usize = Out(One), hTexRef: CUtexref, dptr: CUdeviceptr,
                bytes: usize) state => BindTexture(dptr);
            cuTexRefSetAddress(ByteOffset: *mut u32 = Out(One), hTexRef: CUtexref, dptr: CUdeviceptr_v1, bytes: u32)
                state refuse => BindTexture(dptr);
            cuTexRefSetAddress2D_v3(hTexRef: CUtexref, desc: *const CUDA_ARRAY_DESCRIPTOR = In(One),
                dptr: CUdeviceptr, Pitch: usize) state => BindTexture(dptr);
            cuTexRefSetAddress2D_v2(hTexRef: CUtexref, desc: *const CUDA_ARRAY_DESCRIPTOR = In(One),
                dptr: CUdeviceptr, Pitch: usize) state => BindTexture(dptr);
            cuTexRefSetAddress2D(hTexRef: CUtexref, desc: *const CUDA_ARRAY_DESCRIPTOR_v1 = In(One),
                dptr: CUdeviceptr_v1, Pitch: u32) state refuse => BindTexture(dptr);
            cuTexRefSetFormat(hTexRef: CUtexref, fmt: CUarray_format, NumPackedComponents: i32) state;
            cuTexRefSetAddressMode(hTexRef: CUtexref, dim: i32, am: CUaddress_mode) state;
            cuTexRefSetFilterMode(hTexRef: CUtexref, fm: CUfilter_mode) state;
            cuTexRefSetMipmapFilterMode(hTexRef: CUtexref, fm: CUfilter_mode) state;
            cuTexRefSetMipmapLevelBias(hTexRef: CUtexref, bias: f32) state;
            cuTexRefSetMipmapLevelClamp(hTexRef: CUtexref, minMipmapLevelClamp: f32, maxMipmapLevelClamp: f32) state;
            cuTexRefSetMaxAnisotropy(hTexRef: CUtexref, maxAniso: u32) state;
            cuTexRefSetBorderColor(hTexRef: CUtexref, pBorderColor: *mut f32 = In(Fixed(4))) state;
            cuTexRefSetFlags(hTexRef: CUtexref, Flags: u32 = CUtexRefSetFlags_flags::BITS) state;
            cuTexRefGetAddress_v2(pdptr: *mut CUdeviceptr = Out(One), hTexRef: CUtexref) query;
            cuTexRefGetAddress(pdptr: *mut CUdeviceptr_v1 = Out(One), hTexRef: CUtexref) query refuse;
            cuTexRefGetArray(phArray: *mut CUarray = Out(One), hTexRef: CUtexref) query;
            cuTexRefGetMipmappedArray(phMipmappedArray: *mut CUmipmappedArray = Out(One), hTexRef: CUtexref) query;
            cuTexRefGetAddressMode(pam: *mut CUaddress_mode = Out(One), hTexRef: CUtexref, dim: i32) query;
            cuTexRefGetFilterMode(pfm: *mut CUfilter_mode = Out(One), hTexRef: CUtexref) query;
            cuTexRefGetFormat(pFormat: *mut CUarray_format = Out(One), pNumChannels: *mut i32 = Out(One),
                hTexRef: CUtexref) query;
            cuTexRefGetMipmapFilterMode(pfm: *mut CUfilter_mode = Out(One), hTexRef: CUtexref) query;
            cuTexRefGetMipmapLevelBias(pbias: *mut f32 = Out(One), hTexRef: CUtexref) query;
            cuTexRefGetMipmapLevelClamp(pminMipmapLevelClamp: *mut f32 = Out(One),
                pmaxMipmapLevelClamp: *mut f32 = Out(One), hTexRef: CUtexref) query;
            cuTexRefGetMaxAnisotropy(pmaxAniso: *mut i32 = Out(One), hTexRef: CUtexref) query;
            cuTexRefGetBorderColor(pBorderColor: *mut f32 = Out(Fixed(4)), hTexRef: CUtexref) query;
            cuTexRefGetFlags(pFlags: *mut u32 = Out(One), hTexRef: CUtexref) query;

            // Surface references.
            cuSurfRefSetArray(hSurfRef: CUsurfref, hArray: CUarray, Flags: u32) state;
            cuSurfRefGetArray(phArray: *mut CUarray = Out(One), hSurfRef: CUsurfref) query;

            // Texture and surface objects.
            cuTexObjectCreate(pTexObject: *mut CUtexObject = Create(One), pResDesc: *const CUDA_RESOURCE_DESC = In(One),
                pTexDesc: *const CUDA_TEXTURE_DESC = In(One),
                pResViewDesc: *const CUDA_RESOURCE_VIEW_DESC = In(One)) create => BindTexture(pResDesc);
            cuTexObjectDestroy(texObject: CUtexObject = Destroy) destroy;
            cuTexObjectGetResourceDesc(pResDesc: *mut CUDA_RESOURCE_DESC = Out(One), texObject: CUtexObject) query;
            // What a texture has no use for is left as it was (driver 580).
            cuTexObjectGetTextureDesc(pTexDesc: *mut CUDA_TEXTURE_DESC = InOut(One), texObject: CUtexObject) query;
            cuTexObjectGetResourceViewDesc(pResViewDesc: *mut CUDA_RESOURCE_VIEW_DESC = InOut(One),
                texObject: CUtexObject) query;
            cuSurfObjectCreate(pSurfObject: *mut CUsurfObject = Create(One),
                pResDesc: *const CUDA_RESOURCE_DESC = In(One)) create;
            cuSurfObjectDestroy(surfObject: CUsurfObject = Destroy) destroy;
            cuSurfObjectGetResourceDesc(pResDesc: *mut CUDA_RESOURCE_DESC = Out(One), surfObject: CUsurfObject) query;

            // Tensor maps: no handle, 128 bytes in the application's hands with a device address among them.
            cuTensorMapEncodeTiled(tensorMap: *mut CUtensorMap = Out(One), tensorDataType: CUtensorMapDataType,
                tensorRank: u32, globalAddress: *mut c_void = Address, globalDim: *const u64 = In(Len(tensorRank)),
                globalStrides: *const u64 = In(LenLess(tensorRank, 1)), boxDim: *const u32 = In(Len(tensorRank)),
                elementStrides: *const u32 = In(Len(tensorRank)), interleave: CUtensorMapInterleave,
                swizzle: CUtensorMapSwizzle, l2Promotion: CUtensorMapL2promotion, oobFill: CUtensorMapFloatOOBfill)
                create;
            cuTensorMapEncodeIm2col(tensorMap: *mut CUtensorMap = Out(One), tensorDataType: CUtensorMapDataType,
                tensorRank: u32, globalAddress: *mut c_void = Address, globalDim: *const u64 = In(Len(tensorRank)),
                globalStrides: *const u64 = In(LenLess(tensorRank, 1)),
                pixelBoxLowerCorner: *const i32 = In(LenLess(tensorRank, 2)),
                pixelBoxUpperCorner: *const i32 = In(LenLess(tensorRank, 2)), channelsPerPixel: u32,
                pixelsPerColumn: u32, elementStrides: *const u32 = In(Len(tensorRank)),
                interleave: CUtensorMapInterleave, swizzle: CUtensorMapSwizzle, l2Promotion: CUtensorMapL2promotion,
                oobFill: CUtensorMapFloatOOBfill) create;
            cuTensorMapEncodeIm2colWide(tensorMap: *mut CUtensorMap = Out(One), tensorDataType: CUtensorMapDataType,
                tensorRank: u32, globalAddress: *mut c_void = Address, globalDim: *const u64 = In(Len(tensorRank)),
                globalStrides: *const u64 = In(LenLess(tensorRank, 1)), pixelBoxLowerCornerWidth: i32,
                pixelBoxUpperCornerWidth: i32, channelsPerPixel: u32, pixelsPerColumn: u32,
                elementStrides: *const u32 = In(Len(tensorRank)), interleave: CUtensorMapInterleave,
                mode: CUtensorMapIm2ColWideMode, swizzle: CUtensorMapSwizzle, l2Promotion: CUtensorMapL2promotion,
                oobFill: CUtensorMapFloatOOBfill) create;
            cuTensorMapReplaceAddress(tensorMap: *mut CUtensorMap = InOut(One), globalAddress: *mut c_void = Address)
                create;
            cuTensorMapSetAllocationClass(tensorMap: *mut CUtensorMap = InOut(One), allocClass: CUtensorMapAllocClass,
                outAllocClass: *mut CUtensorMapAllocClass = Volatile(One)) create;
        }
    };
}

describe_family!(array);
