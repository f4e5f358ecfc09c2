// Copies to the host that are known to have arrived by calls which are no synchronisations of theirs: by copies that wait, by events on the legacy stream.
// What they brought is written over then
#include "check.h"

enum { WORDS = 1024, WAYS = 11 };

static CUstream blocking, beside;
static CUevent event;
static CUdeviceptr data, little;
static unsigned *pinned, *other, pageable[WORDS];

static void rows(void)
{
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = pageable, .srcPitch = 64, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = little, .dstPitch = 64, .WidthInBytes = 16, .Height = 4};
    CHECK(cuMemcpy2D(&copy));
}

static void wait_by(int way)
{
    switch (way) {
    case 0: CHECK(cuMemcpyDtoHAsync(pageable, data, 64, blocking)); break;
    case 1: CHECK(cuMemcpyAsync((CUdeviceptr)pageable, data, 64, blocking)); break;
    case 2: CHECK(cuMemcpyHtoD(little, pageable, 64)); break;
    case 3: CHECK(cuMemcpyHtoD(little, other, 64)); break;
    case 4: CHECK(cuMemcpy(little, (CUdeviceptr)pageable, 64)); break;
    case 5: rows(); break;
    case 6: CHECK(cuMemsetD8((CUdeviceptr)other, way, 64)); break;
    case 7: CHECK(cuMemcpyDtoH(pageable, little, 64)); break;
    case 8: CHECK(cuEventRecord(event, NULL)); CHECK(cuEventSynchronize(event)); break;
    case 9: CHECK(cuEventRecord(event, NULL)); CHECK(cuStreamWaitEvent(beside, event, 0)); CHECK(cuStreamSynchronize(beside)); break;
    case 10: CHECK(cuEventRecord(event, NULL)); while (cuEventQuery(event)) ; break;
    }
}

int main(void)
{
    unsigned rounds = 100000, sum = 0;
    int way;

    start_driver();
    CUfunction busy = find_kernel(load_module("faults"), "busy");
    CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    CHECK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemHostAlloc((void **)&pinned, WAYS * sizeof pageable, 0));
    CHECK(cuMemHostAlloc((void **)&other, 4096, 0));
    memset(other, 1, 4096);
    data = allocate(sizeof pageable), little = allocate(4096);
    CHECK(cuMemsetD32(little, 1, 1024));
    for (way = 0; way < WAYS; way++) {
        volatile unsigned *place = pinned + way * WORDS;
        CHECK(cuMemsetD32Async(data, way + 100, WORDS, blocking));
        CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, blocking, (void *[]){&rounds, &data}, NULL));
        CHECK(cuMemcpyDtoHAsync((void *)place, data, sizeof pageable, blocking));
        wait_by(way);
        REQUIRE(place[WORDS - 1] == (unsigned)way + 100);
        sum = sum * 31 + place[0];
        place[0] = 7;
    }
    CHECK(cuCtxSynchronize());
    printf("%u\n", sum);
    return 0;
}
