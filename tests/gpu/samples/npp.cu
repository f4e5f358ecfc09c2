// NPP: filters, geometry, statistics and signals
// nvcc: -lnppif -lnppig -lnppist -lnppial -lnppicc -lnpps -lnppc
#include "sample.h"
#include <npp.h>

int main()
{
    const int width = 200, height = 120;
    NppStreamContext context = {};
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    context.nMultiProcessorCount = properties.multiProcessorCount;
    context.nMaxThreadsPerMultiProcessor = properties.maxThreadsPerMultiProcessor;
    context.nMaxThreadsPerBlock = properties.maxThreadsPerBlock;
    context.nSharedMemPerBlock = properties.sharedMemPerBlock;
    context.nCudaDevAttrComputeCapabilityMajor = properties.major;
    context.nCudaDevAttrComputeCapabilityMinor = properties.minor;
    std::vector<Npp8u> image = numbers<Npp8u>(width * height, 256);
    Npp8u *in = upload(image), *out = allocate<Npp8u>(width * height * 4);
    CHECK(cudaMemset(out, 0, width * height * 4));
    NppiSize size = {width, height}, inner = {width - 4, height - 4}, mask = {3, 3};
    NppiPoint anchor = {1, 1};
    ZERO(nppiFilterBox_8u_C1R_Ctx(in + 2 * width + 2, width, out + 2 * width + 2, width, inner, mask, anchor, context));
    std::vector<Npp8u> results = download(out, width * height);
    for (int y = 2; y < height - 2; y++)
        for (int x = 2; x < width - 2; x++) {
            int sum = 0;
            for (int k = 0; k < 9; k++)
                sum += image[(y - 1 + k / 3) * width + x - 1 + k % 3];
            REQUIRE(abs(results[y * width + x] - sum / 9) <= 1);
        }
    print("box", results);
    NppiSize twice = {2 * width, 2 * height};
    ZERO(nppiResize_8u_C1R_Ctx(in, width, size, {0, 0, width, height}, out, 2 * width, twice, {0, 0, 2 * width, 2 * height}, NPPI_INTER_LINEAR, context));
    print("resized", download(out, 4 * width * height));
    ZERO(nppiAddC_8u_C1RSfs_Ctx(in, width, 10, out, width, size, 1, context));
    print("added", download(out, width * height));

    size_t room;
    ZERO(nppiSumGetBufferHostSize_8u_C1R_Ctx(size, &room, context));
    Npp64f *sum = allocate<Npp64f>(1), wanted = 0;
    ZERO(nppiSum_8u_C1R_Ctx(in, width, size, allocate<Npp8u>(room), sum, context));
    for (Npp8u value : image)
        wanted += value;
    REQUIRE(download(sum, 1)[0] == wanted);
    printf("sum %g\n", wanted);

    const int n = 5000;
    std::vector<Npp32f> signal = numbers<Npp32f>(n);
    Npp32f *device = upload(signal);
    ZERO(nppsMulC_32f_I_Ctx(3, device, n, context));
    ZERO(nppsAddC_32f_I_Ctx(1, device, n, context));
    std::vector<Npp32f> scaled = download(device, n);
    for (int i = 0; i < n; i++)
        REQUIRE(scaled[i] == signal[i] * 3 + 1);
    print("signal", scaled);
    return 0;
}
