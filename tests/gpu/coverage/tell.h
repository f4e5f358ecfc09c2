// The programs here call what few others do, and print what each call returned: an error is an answer, too, and its replay must
// give the same one. Functions go by the names that the driver exports, so `cuMemcpyHtoA` is the old form and `_v2` the new.
#pragma once
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#define cuMemAlloc cuMemAlloc_v2
#include "check.h"
#undef cuMemAlloc

#define TELL(call) tell(#call, call)
// The function or its twin for per-thread default streams
#define EITHER(twin, name, ...) ((twin) ? TELL(name##_ptsz(__VA_ARGS__)) : TELL(name(__VA_ARGS__)))

static inline CUresult tell(const char *call, CUresult result)
{
    printf("%.*s %d\n", (int)strcspn(call, "("), call, (int)result);
    return result;
}

// Something that the device computed, so that there is a result to compare
static inline void fill_and_see(unsigned value)
{
    CUdeviceptr memory = allocate(64);
    unsigned seen[16];

    CHECK(cuMemsetD32_v2(memory, value, 16));
    CHECK(cuMemcpyDtoH_v2(seen, memory, sizeof seen));
    CHECK(cuMemFree_v2(memory));
    printf("filled with %u\n", seen[15]);
}
