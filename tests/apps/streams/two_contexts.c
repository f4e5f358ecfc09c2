// Two contexts over two threads: pushed and popped, attached and detached, destroyed by another thread than made them
#include "check.h"
#include <pthread.h>

enum { N = 64 };

static CUcontext contexts[2];
static CUdeviceptr memory[2];
static CUfunction kernels[2];

static void fill(int which)
{
    CUcontext popped, attached;
    int n = N;

    CHECK(cuCtxPushCurrent(contexts[which]));
    CHECK(cuCtxAttach(&attached, 0));
    REQUIRE(attached == contexts[which]);
    launch(kernels[which], 1, N, (void *[]){&memory[which], &n});
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxDetach(attached));
    CHECK(cuCtxPopCurrent(&popped));
    REQUIRE(popped == contexts[which]);
}

static void *work(void *unused)
{
    fill(1);
    fill(0);
    return unused;
}

int main(void)
{
    int numbers[N], which, n = N, i;
    CUcontext popped;
    pthread_t thread;

    CHECK(cuInit(0));
    for (which = 0; which < 2; which++) {
        CHECK(cuCtxCreate(&contexts[which], NULL, which ? CU_CTX_SCHED_YIELD : 0, 0));
        kernels[which] = find_kernel(load_module("faults"), which ? "twice" : "add_two");
        memory[which] = allocate(sizeof numbers);
        for (i = 0; i < n; i++)
            numbers[i] = i;
        CHECK(cuMemcpyHtoD(memory[which], numbers, sizeof numbers));
        CHECK(cuCtxPopCurrent(&popped));
        REQUIRE(popped == contexts[which]);
    }
    REQUIRE(!pthread_create(&thread, NULL, work, NULL));
    REQUIRE(!pthread_join(thread, NULL));
    fill(0);
    for (which = 0; which < 2; which++) {
        CHECK(cuCtxPushCurrent(contexts[which]));
        CHECK(cuMemcpyDtoH(numbers, memory[which], sizeof numbers));
        printf("%d\n", numbers[N - 1]);
        REQUIRE(numbers[N - 1] == (which ? 2 * (N - 1) : N - 1 + 4));
        CHECK(cuCtxDestroy(contexts[which]));
    }
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
    return 0;
}
