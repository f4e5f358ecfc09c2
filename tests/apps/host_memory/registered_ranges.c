// Host memory registered at odd offsets, some of it twice, and managed memory that is advised and prefetched
#include "check.h"

enum { N = 5000 };

int main(void)
{
    static unsigned char block[8 * 4096], home[N];
    unsigned char *odd = block + 4096 + 17, *next = block + 5 * 4096 + 1;
    CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    CUdeviceptr seen, managed;
    CUstream stream;
    int i, round;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr memory = allocate(N);
    for (round = 0; round < 3; round++) {
        CHECK(cuMemHostRegister(odd, N, CU_MEMHOSTREGISTER_DEVICEMAP));
        CHECK(cuMemHostRegister(next, 100, CU_MEMHOSTREGISTER_PORTABLE));
        CHECK(cuMemHostGetDevicePointer(&seen, odd, 0));
        for (i = 0; i < N; i++)
            odd[i] = i * 3 + round;
        CHECK(cuMemcpyHtoDAsync(memory, odd, N, stream));
        CHECK(cuMemcpyDtoHAsync(home, memory, N, stream));
        CHECK(cuStreamSynchronize(stream));
        REQUIRE(!memcmp(home, odd, N));
        // By the device's address of it, from the middle.
        CHECK(cuMemcpyDtoDAsync(memory, seen + 100, N - 100, stream));
        CHECK(cuMemcpyDtoHAsync(next + 3, memory, 97, stream));
        CHECK(cuStreamSynchronize(stream));
        REQUIRE(!memcmp(next + 3, odd + 100, 97));
        CHECK(cuMemHostUnregister(next));
        CHECK(cuMemHostUnregister(odd));
    }
    CHECK(cuMemAllocManaged(&managed, N, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemAdvise_v2(managed, N, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
    CHECK(cuMemPrefetchAsync_v2(managed, N, device, 0, stream));
    CHECK(cuMemsetD8Async(managed, 6, N, stream));
    CHECK(cuMemcpyDtoDAsync(memory, managed, N, stream));
    CHECK(cuMemcpyDtoHAsync(home, memory, N, stream));
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(home[N - 1] == 6);
    CHECK(cuMemFree(managed));
    printf("%d\n", next[99]);
    return 0;
}
