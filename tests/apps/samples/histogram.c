// Counts bytes by atomic additions in shared and in global memory
#include "check.h"

enum { N = 5000, BINS = 256 };

int main(void)
{
    unsigned char data[N];
    unsigned bins[BINS], expected[BINS] = {0}, n = N, i;

    start_driver();
    CUfunction function = find_kernel(load_module("histogram"), "histogram");
    CUdeviceptr ddata = allocate(N), dbins = allocate(sizeof bins);
    void *arguments[] = {&ddata, &n, &dbins};

    for (i = 0; i < N; i++)
        expected[data[i] = i * i % 251]++;
    CHECK(cuMemcpyHtoD(ddata, data, N));
    CHECK(cuMemsetD32(dbins, 0, BINS));
    launch(function, 4, 128, arguments);
    CHECK(cuMemcpyDtoH(bins, dbins, sizeof bins));
    REQUIRE(!memcmp(bins, expected, sizeof bins));
    printf("%u ones\n", bins[1]);
    return 0;
}
