// Two streams that take turns by values in pinned memory which they write for each other, one by one and in batches
#include "check.h"

enum { N = 256, ROUNDS = 12 };

static CUfunction add;
static CUdeviceptr data, flags;
static int n = N;

static void step(CUstream stream)
{
    CHECK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, stream, (void *[]){&data, &n}, NULL));
}

static void swap(CUstream from, CUstream to, unsigned offset, unsigned value)
{
    CUstreamBatchMemOpParams batch[2];

    memset(batch, 0, sizeof batch);
    for (int i = 0; i < 2; i++) {
        batch[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        batch[i].writeValue.address = flags + offset + 4 * i;
        batch[i].writeValue.value = value << i;
    }
    CHECK(cuStreamBatchMemOp(from, 2, batch, 0));
    memset(batch, 0, sizeof batch);
    for (int i = 0; i < 2; i++) {
        batch[i].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
        batch[i].waitValue.address = flags + offset + 4 * i;
        batch[i].waitValue.value = value << i;
        batch[i].waitValue.flags = i ? CU_STREAM_WAIT_VALUE_EQ : CU_STREAM_WAIT_VALUE_GEQ;
    }
    CHECK(cuStreamBatchMemOp(to, 2, batch, 0));
}

int main(void)
{
    int back[N], round;
    unsigned *host;
    CUstream a, b;

    start_driver();
    add = find_kernel(load_module("faults"), "twice");
    data = allocate(sizeof back);
    CHECK(cuMemHostAlloc((void **)&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    memset(host, 0, 4096);
    CHECK(cuMemHostGetDevicePointer(&flags, host, 0));
    CHECK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemsetD32(data, 1, N));
    CHECK(cuCtxSynchronize());
    for (round = 1; round <= ROUNDS; round++) {
        step(a);
        CHECK(cuStreamWriteValue32(a, flags, round, 0));
        CHECK(cuStreamWaitValue32(b, flags, round, round % 2 ? CU_STREAM_WAIT_VALUE_EQ : CU_STREAM_WAIT_VALUE_GEQ));
        CHECK(cuMemsetD32Async(data + 4 * round, round, 1, b));
        CHECK(cuStreamWriteValue64(b, flags + 8, 0x100000000ull + round, 0));
        CHECK(cuStreamWaitValue64(a, flags + 8, 0x100000000ull + round, CU_STREAM_WAIT_VALUE_EQ));
        if (round % 3 == 0) {
            step(a);
            swap(a, b, 16, round);
            step(b);
            swap(b, a, 24, round);
        }
    }
    CHECK(cuMemcpyDtoHAsync(back, data, sizeof back, a));
    CHECK(cuStreamSynchronize(a));
    CHECK(cuStreamSynchronize(b));
    REQUIRE(back[N - 1] == 1 << (ROUNDS + 2 * (ROUNDS / 3)));
    printf("%d %d %u %u\n", back[1], back[N - 1], host[0], host[6]);
    return 0;
}
