// A fill on the default stream, behind a callback that goes on for a while, and a batch of copies to the same memory on a non-blocking
// stream: nothing orders the two, and the fill comes last. The argument says how many copies
#include "check.h"
#include <unistd.h>

enum { MOST = 4096, BLOCK = 32, ALL = MOST * BLOCK + 4 };
static volatile int go;

static void CUDA_CB wait_for_it(void *unused)
{
    (void)unused;
    while (!go)
        usleep(1000);
}

int main(int argc, char **argv)
{
    static CUdeviceptr from[MOST], to[MOST];
    static size_t sizes[MOST];
    static unsigned char back[ALL];
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    int count = argc > 1 ? atoi(argv[1]) : MOST, i;
    unsigned char *pinned;
    CUdeviceptr memory;
    size_t first = 0;
    CUstream stream;

    REQUIRE(count > 0 && count <= MOST);
    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    memory = allocate(ALL);
    CHECK(cuMemHostAlloc((void **)&pinned, count * BLOCK, 0));
    memset(pinned, 0x5a, count * BLOCK);
    for (i = 0; i < count; i++) {
        from[i] = (CUdeviceptr)(pinned + i * BLOCK);
        to[i] = memory + i * BLOCK;
        sizes[i] = BLOCK;
    }
    CHECK(cuLaunchHostFunc(NULL, wait_for_it, NULL));
    CHECK(cuMemsetD8Async(memory, 0x21, ALL, NULL));
    CHECK(cuMemcpyBatchAsync(to, from, sizes, count, &attributes, &first, 1, stream));
    CHECK(cuStreamSynchronize(stream));
    go = 1;
    CHECK(cuCtxSynchronize());
    CHECK(cuMemsetD32(memory + ALL - 4, 0xc0ffee, 1));
    CHECK(cuMemcpyDtoH(back, memory, ALL));
    REQUIRE(back[0] == 0x21 && back[count * BLOCK - 1] == 0x21);
    return 0;
}
