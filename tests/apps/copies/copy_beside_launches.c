// Copies and fills of pinned memory by its device address, which are done when they return, while another thread launches kernels
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { WORDS = 1 << 19, TIMES = 18 };

static CUcontext context;
static CUfunction take;
static atomic_int stop;

static void *launch_kernels(void *unused)
{
    CUdeviceptr memory;
    CUstream stream;
    int few = 128;

    (void)unused;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    memory = allocate(few * 4);
    while (!stop) {
        CHECK(cuLaunchKernel(take, 1, 1, 1, few, 1, 1, 0, stream, (void *[]){&memory, &memory, &few}, NULL));
        CHECK(cuStreamSynchronize(stream));
    }
    return NULL;
}

int main(void)
{
    static unsigned source[WORDS], back[1024];
    unsigned few = 1024, *memory;
    CUstream stream;
    pthread_t thread;

    context = start_driver();
    take = find_kernel(load_module("memory"), "take");
    CUdeviceptr to = allocate(sizeof back);
    CHECK(cuMemHostAlloc((void **)&memory, sizeof source, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    pthread_create(&thread, NULL, launch_kernels, NULL);
    // From here on what the CPU writes there is followed.
    CHECK(cuLaunchKernel(take, few / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&to, &memory, &few}, NULL));
    CHECK(cuStreamSynchronize(stream));
    for (int i = 0; i < TIMES; i++) {
        memset(source, i, sizeof source);
        if (i % 4 == 3)
            CHECK(cuMemsetD32((CUdeviceptr)memory, i, WORDS));
        else
            CHECK(cuMemcpyHtoD((CUdeviceptr)memory, source, sizeof source));
        // Of the driver's own stream
        CHECK(cuStreamSynchronize(CU_STREAM_LEGACY));
        REQUIRE(memory[WORDS - 1] == (i % 4 == 3 ? (unsigned)i : source[0]));
    }
    CHECK(cuLaunchKernel(take, few / 128, 1, 1, 128, 1, 1, 0, stream, (void *[]){&to, &memory, &few}, NULL));
    CHECK(cuMemcpyDtoHAsync(back, to, sizeof back, stream));
    CHECK(cuStreamSynchronize(stream));
    stop = 1;
    pthread_join(thread, NULL);
    printf("%u\n", back[1]);
    return 0;
}
