//! Arrays, textures, surfaces and tensor maps.

use super::super::{enums::*, types::*};
use super::*;

/// What a texture or surface object is laid over.
const RESOURCES: &[(u32, &Type)] = {
    use CUresourcetype as R;
    &[
        (R::CU_RESOURCE_TYPE_ARRAY.0, CUarray::TYPE),
        (R::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY.0, CUmipmappedArray::TYPE),
        (R::CU_RESOURCE_TYPE_LINEAR.0, CUDA_RESOURCE_DESC_res_linear::TYPE),
        (R::CU_RESOURCE_TYPE_PITCH2D.0, CUDA_RESOURCE_DESC_res_pitch2D::TYPE),
    ]
};

structs! {
    CUDA_ARRAY_DESCRIPTOR {
        Width: usize,
        Height: usize,
        Format: CUarray_format,
        NumChannels: u32,
    }
    CUDA_ARRAY_DESCRIPTOR_v1 {
        Width: u32,
        Height: u32,
        Format: CUarray_format,
        NumChannels: u32,
    }
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: usize,
        Height: usize,
        Depth: usize,
        Format: CUarray_format,
        NumChannels: u32,
        Flags: u32 = CUDA_ARRAY3D_flags::BITS,
    }
    CUDA_ARRAY3D_DESCRIPTOR_v1 {
        Width: u32,
        Height: u32,
        Depth: u32,
        Format: CUarray_format,
        NumChannels: u32,
        Flags: u32 = CUDA_ARRAY3D_flags::BITS,
    }
    CUDA_ARRAY_SPARSE_PROPERTIES_tileExtent {
        width: u32,
        height: u32,
        depth: u32,
    }
    CUDA_ARRAY_SPARSE_PROPERTIES {
        tileExtent: CUDA_ARRAY_SPARSE_PROPERTIES_tileExtent,
        miptailFirstLevel: u32,
        miptailSize: u64,
        flags: u32 = CUarraySparseProperties_flags::BITS,
        reserved: [u32; 4],
    }
    CUDA_ARRAY_MEMORY_REQUIREMENTS {
        size: usize,
        alignment: usize,
        reserved: [u32; 4],
    }
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC {
        offset: u64,
        arrayDesc: CUDA_ARRAY3D_DESCRIPTOR,
        numLevels: u32,
        reserved: [u32; 16],
    }
    CUDA_RESOURCE_DESC_res_linear {
        devPtr: CUdeviceptr,
        format: CUarray_format,
        numChannels: u32,
        sizeInBytes: usize,
    }
    CUDA_RESOURCE_DESC_res_pitch2D {
        devPtr: CUdeviceptr,
        format: CUarray_format,
        numChannels: u32,
        width: usize,
        height: usize,
        pitchInBytes: usize,
    }
    CUDA_RESOURCE_DESC {
        resType: CUresourcetype,
        res: [u64; 16] = Union(resType, RESOURCES),
        flags: u32,
    }
    CUDA_RESOURCE_VIEW_DESC {
        format: CUresourceViewFormat,
        width: usize,
        height: usize,
        depth: usize,
        firstMipmapLevel: u32,
        lastMipmapLevel: u32,
        firstLayer: u32,
        lastLayer: u32,
        reserved: [u32; 16],
    }
    CUDA_TEXTURE_DESC {
        addressMode: [CUaddress_mode; 3],
        filterMode: CUfilter_mode,
        flags: u32 = CUtexRefSetFlags_flags::BITS,
        maxAnisotropy: u32,
        mipmapFilterMode: CUfilter_mode,
        mipmapLevelBias: f32,
        minMipmapLevelClamp: f32,
        maxMipmapLevelClamp: f32,
        borderColor: [f32; 4],
        reserved: [i32; 12],
    }
    // C aligns it to 128 bytes (64 before 13.0); it is only ever behind a pointer here.
    CUtensorMap {
        opaque: [u64; 16],
    }
}
