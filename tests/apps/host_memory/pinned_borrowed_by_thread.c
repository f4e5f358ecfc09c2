// Pinned memory that one thread's kernel was given, filled and copied from by another thread, which gives it to no kernel
#include "check.h"
#include <pthread.h>

enum { N = 2048, BYTES = N * sizeof(int) };

static CUcontext context;
static CUdeviceptr out[2];
static unsigned char *pinned;

static void fill(int seed)
{
    for (int i = 0; i < BYTES; i++)
        pinned[i] = i * seed + seed;
}

static void *borrow(void *unused)
{
    CUstream stream;

    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    fill(3);
    CHECK(cuMemcpyHtoD(out[0], pinned, BYTES));
    fill(5);
    CHECK(cuMemcpyHtoDAsync(out[1], pinned, BYTES, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamDestroy(stream));
    return unused;
}

int main(void)
{
    unsigned char back[BYTES];
    int n = N, i, at;
    pthread_t thread;

    context = start_driver();
    CUfunction take = find_kernel(load_module("memory"), "take");
    CHECK(cuMemAllocHost((void **)&pinned, BYTES));
    fill(1);
    for (i = 0; i < 2; i++)
        out[i] = allocate(BYTES);
    launch(take, N / 128, 128, (void *[]){&out[0], &pinned, &n});
    CHECK(cuCtxSynchronize());
    REQUIRE(!pthread_create(&thread, NULL, borrow, NULL) && !pthread_join(thread, NULL));
    for (i = 0; i < 2; i++) {
        unsigned sum = 0;
        CHECK(cuMemcpyDtoH(back, out[i], BYTES));
        for (at = 0; at < BYTES; at++)
            sum = sum * 31 + back[at];
        printf("%08x\n", sum);
    }
    return 0;
}
