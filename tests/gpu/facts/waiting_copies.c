// Which copies and fills without a stream have brought their bytes to memory of the host when they return, or read theirs from there
#include "../../apps/check.h"

enum { SIZE = 64 << 20, BUSY = 512 << 20, TIMES = 8, WIDTH = 1 << 16 };

static CUdeviceptr busy, device;
static unsigned char *pageable;

static void keep_busy(void)
{
    for (int i = 0; i < TIMES; i++)
        CHECK(cuMemsetD8Async(busy, i, BUSY, NULL));
}

static void fill(CUdeviceptr to) { CHECK(cuMemsetD8(to, 5, SIZE)); }
static void fill_rows(CUdeviceptr to) { CHECK(cuMemsetD2D8(to, WIDTH, 5, WIDTH, SIZE / WIDTH)); }
static void fill_words(CUdeviceptr to) { CHECK(cuMemsetD32(to, 0x05050505, SIZE / 4)); }
static void from_device(CUdeviceptr to) { CHECK(cuMemcpyDtoD(to, device, SIZE)); }
static void from_pageable(CUdeviceptr to) { CHECK(cuMemcpyHtoD(to, pageable, SIZE)); }
static void unified_from_device(CUdeviceptr to) { CHECK(cuMemcpy(to, device, SIZE)); }
static void unified_from_pageable(CUdeviceptr to) { CHECK(cuMemcpy(to, (CUdeviceptr)pageable, SIZE)); }

static void rows(CUdeviceptr to, CUmemorytype from)
{
    CUDA_MEMCPY2D copy = {
        .srcMemoryType = from, .srcHost = pageable, .srcDevice = device, .srcPitch = WIDTH,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = to, .dstPitch = WIDTH,
        .WidthInBytes = WIDTH, .Height = SIZE / WIDTH,
    };

    CHECK(cuMemcpy2D(&copy));
}

static void rows_from_device(CUdeviceptr to) { rows(to, CU_MEMORYTYPE_DEVICE); }
static void rows_from_pageable(CUdeviceptr to) { rows(to, CU_MEMORYTYPE_HOST); }

static void to_device(CUdeviceptr from) { CHECK(cuMemcpyDtoD(device, from, SIZE)); }
static void host_to_device(CUdeviceptr from) { CHECK(cuMemcpyHtoD(device, (void *)from, SIZE)); }
static void unified_to_device(CUdeviceptr from) { CHECK(cuMemcpy(device, from, SIZE)); }
static void unified_to_pageable(CUdeviceptr from) { CHECK(cuMemcpy((CUdeviceptr)pageable, from, SIZE)); }

static void rows_to_device(CUdeviceptr from)
{
    CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = from, .srcPitch = WIDTH,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = device, .dstPitch = WIDTH,
        .WidthInBytes = WIDTH, .Height = SIZE / WIDTH,
    };

    CHECK(cuMemcpy2D(&copy));
}

typedef struct {
    const char *name;
    void (*make)(CUdeviceptr);
} Call;

// Whether the source may be written when the call has returned
static void read_from(const Call *call, const char *kind, unsigned char *from)
{
    memset(from, 7, SIZE);
    CHECK(cuCtxSynchronize());
    keep_busy();
    call->make((CUdeviceptr)from);
    CUresult left = cuStreamQuery(NULL);
    memset(from + SIZE - 4096, 1, 4096);
    CHECK(cuCtxSynchronize());
    if (call->make != unified_to_pageable)
        CHECK(cuMemcpyDtoH(pageable, device, SIZE));
    printf("%-36s from %-10s memory: the stream is %s, the bytes %s\n", call->name, kind, left == CUDA_SUCCESS ? "done" : "at work",
        pageable[SIZE - 1] == 7 ? "had been read" : "had not been read");
    memset(pageable, 5, SIZE);
}

int main(void)
{
    static const Call calls[] = {
        {"cuMemsetD8", fill}, {"cuMemsetD2D8", fill_rows}, {"cuMemsetD32", fill_words}, {"cuMemcpyDtoD", from_device},
        {"cuMemcpyHtoD from pageable memory", from_pageable}, {"cuMemcpy from the device", unified_from_device},
        {"cuMemcpy from pageable memory", unified_from_pageable}, {"cuMemcpy2D between device addresses", rows_from_device},
        {"cuMemcpy2D from pageable memory", rows_from_pageable},
    };
    unsigned char *to[3];
    static const char *kinds[] = {"pinned", "registered", "managed"};

    start_driver();
    busy = allocate(BUSY);
    device = allocate(SIZE);
    pageable = malloc(SIZE);
    memset(pageable, 5, SIZE);
    CHECK(cuMemsetD8(device, 5, SIZE));
    CHECK(cuMemHostAlloc((void **)&to[0], SIZE, CU_MEMHOSTALLOC_DEVICEMAP));
    to[1] = aligned_alloc(4096, SIZE);
    memset(to[1], 0, SIZE);
    CHECK(cuMemHostRegister(to[1], SIZE, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemAllocManaged((CUdeviceptr *)&to[2], SIZE, CU_MEM_ATTACH_GLOBAL));
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int kind = 0; kind < 3; kind++) {
            memset(to[kind], 0, SIZE);
            CHECK(cuCtxSynchronize());
            keep_busy();
            calls[i].make((CUdeviceptr)to[kind]);
            CUresult left = cuStreamQuery(NULL);
            int done = kind == 2 ? -1 : ((volatile unsigned char *)to[kind])[SIZE - 1] == 5;
            printf("%-36s to %-10s memory: the stream is %s%s\n", calls[i].name, kinds[kind],
                left == CUDA_SUCCESS ? "done" : "at work", done < 0 ? "" : done ? ", the bytes are there" : ", the bytes are not there");
            CHECK(cuCtxSynchronize());
        }
    static const Call reading[] = {
        {"cuMemcpyDtoD", to_device}, {"cuMemcpyHtoD", host_to_device}, {"cuMemcpy to the device", unified_to_device},
        {"cuMemcpy to pageable memory", unified_to_pageable}, {"cuMemcpy2D between device addresses", rows_to_device},
    };
    for (unsigned i = 0; i < sizeof reading / sizeof *reading; i++)
        for (int kind = 0; kind < 2; kind++)
            read_from(&reading[i], kinds[kind], to[kind]);
    keep_busy();
    CHECK(cuMemcpyDtoD(device, (CUdeviceptr)to[2], SIZE));
    printf("cuMemcpyDtoD from managed memory: the stream is %s\n", cuStreamQuery(NULL) == CUDA_SUCCESS ? "done" : "at work");
    CHECK(cuCtxSynchronize());
    return 0;
}
