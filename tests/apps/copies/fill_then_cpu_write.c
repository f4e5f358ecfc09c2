// Copies and fills without a stream bring bytes to memory of the host behind other work; as soon as they return the CPU writes
// the first half
#include "check.h"

enum { SIZE = 8192, WIDTH = 64, OTHER = 64 << 20 };

static CUdeviceptr fives;

static void rows(CUdeviceptr to)
{
    CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = fives, .srcPitch = WIDTH,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = to, .dstPitch = WIDTH,
        .WidthInBytes = WIDTH, .Height = SIZE / WIDTH,
    };

    CHECK(cuMemcpy2D(&copy));
}

static void bring(CUdeviceptr to, int how)
{
    switch (how) {
    case 0: CHECK(cuMemsetD8(to, 5, SIZE)); break;
    case 1: CHECK(cuMemsetD32(to, 0x05050505, SIZE / 4)); break;
    case 2: CHECK(cuMemsetD2D8(to, WIDTH, 5, WIDTH, SIZE / WIDTH)); break;
    case 3: CHECK(cuMemcpyDtoD(to, fives, SIZE)); break;
    case 4: CHECK(cuMemcpy(to, fives, SIZE)); break;
    case 5: rows(to); break;
    }
}

int main(void)
{
    static char bytes[SIZE];
    char *memory[3];
    CUstream stream;

    start_driver();
    CUdeviceptr to = allocate(SIZE), other = allocate(OTHER);
    fives = allocate(SIZE);
    CHECK(cuMemsetD8(fives, 5, SIZE));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&memory[0], SIZE, CU_MEMHOSTALLOC_DEVICEMAP));
    memory[1] = aligned_alloc(4096, SIZE);
    memset(memory[1], 0, SIZE);
    CHECK(cuMemHostRegister(memory[1], SIZE, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemAllocManaged((CUdeviceptr *)&memory[2], SIZE, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuCtxSynchronize());
    for (int kind = 0; kind < 3; kind++)
        for (int how = 0; how < 6; how++)
            // Twice, as the CPU then writes what it has written before
            for (int turn = 0; turn < 2; turn++) {
                CHECK(cuMemsetD8Async(other, how, OTHER, NULL));
                bring((CUdeviceptr)memory[kind], how);
                memset(memory[kind], 9, SIZE / 2);
                CHECK(cuMemcpyDtoDAsync(to, (CUdeviceptr)memory[kind], SIZE, turn ? NULL : stream));
                CHECK(cuCtxSynchronize());
                CHECK(cuMemcpyDtoH(bytes, to, SIZE));
                REQUIRE(bytes[0] == 9 && bytes[SIZE / 2 - 1] == 9 && bytes[SIZE / 2] == 5 && bytes[SIZE - 1] == 5);
            }
    puts("9 5");
    return 0;
}
