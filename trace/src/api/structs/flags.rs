//! Flag words whose bits the header defines as macros, not as an enumeration.

use super::super::types::enums;

enums! {
    CUmemHostAlloc_flags {
        CU_MEMHOSTALLOC_PORTABLE = 1,
        CU_MEMHOSTALLOC_DEVICEMAP = 2,
        CU_MEMHOSTALLOC_WRITECOMBINED = 4,
    }
    CUmemHostRegister_flags {
        CU_MEMHOSTREGISTER_PORTABLE = 1,
        CU_MEMHOSTREGISTER_DEVICEMAP = 2,
        CU_MEMHOSTREGISTER_IOMEMORY = 4,
        CU_MEMHOSTREGISTER_READ_ONLY = 8,
    }
    CUmemCreate_usage {
        CU_MEM_CREATE_USAGE_TILE_POOL = 1,
        CU_MEM_CREATE_USAGE_HW_DECOMPRESS = 2,
    }
    CUmemPoolCreate_usage {
        CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS = 2,
    }
    CUDA_ARRAY3D_flags {
        CUDA_ARRAY3D_LAYERED = 1,
        CUDA_ARRAY3D_SURFACE_LDST = 2,
        CUDA_ARRAY3D_CUBEMAP = 4,
        CUDA_ARRAY3D_TEXTURE_GATHER = 8,
        CUDA_ARRAY3D_DEPTH_TEXTURE = 0x10,
        CUDA_ARRAY3D_COLOR_ATTACHMENT = 0x20,
        CUDA_ARRAY3D_SPARSE = 0x40,
        CUDA_ARRAY3D_DEFERRED_MAPPING = 0x80,
        CUDA_ARRAY3D_VIDEO_ENCODE_DECODE = 0x100,
    }
    CUarraySparseProperties_flags {
        CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL = 1,
    }
    CUtexRefSetArray_flags {
        CU_TRSA_OVERRIDE_FORMAT = 1,
    }
    CUtexRefSetFlags_flags {
        CU_TRSF_READ_AS_INTEGER = 1,
        CU_TRSF_NORMALIZED_COORDINATES = 2,
        CU_TRSF_SRGB = 0x10,
        CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION = 0x20,
        CU_TRSF_SEAMLESS_CUBEMAP = 0x40,
    }
}
