// Green contexts: the device's processors divided, a stream on each part
// nvcc: DRIVER
#include "sample.h"
#include <cuda.h>

__global__ void work(int *values, int n, int with)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        values[i] = values[i] * 2 + with;
}

int main()
{
    const int n = 20000;
    CHECK(cudaFree(nullptr));
    CUdevice device;
    CUdevResource all, parts[2], rest;
    unsigned count = 2;
    ZERO(cuDeviceGet(&device, 0));
    ZERO(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    ZERO(cuDevSmResourceSplitByCount(parts, &count, &all, &rest, 0, 16));
    REQUIRE(count == 2 && parts[0].sm.smCount >= 16);
    CUgreenCtx contexts[2];
    CUstream streams[2];
    std::vector<int> values = numbers<int>(n);
    int *memory[2];
    for (int i = 0; i < 2; i++) {
        CUdevResourceDesc description;
        ZERO(cuDevResourceGenerateDesc(&description, &parts[i], 1));
        ZERO(cuGreenCtxCreate(&contexts[i], description, device, CU_GREEN_CTX_DEFAULT_STREAM));
        ZERO(cuGreenCtxStreamCreate(&streams[i], contexts[i], CU_STREAM_NON_BLOCKING, 0));
        memory[i] = upload(values);
    }
    for (int turn = 0; turn < 6; turn++)
        work<<<32, 256, 0, streams[turn % 2]>>>(memory[turn % 2], n, turn);
    for (int i = 0; i < 2; i++) {
        CHECK(cudaStreamSynchronize(streams[i]));
        std::vector<int> results = download(memory[i], n);
        for (int k = 0; k < n; k++)
            REQUIRE(results[k] == values[k] * 8 + 4 * i + 2 * (i + 2) + i + 4);
        print("part", results);
        CUcontext context, primary;
        ZERO(cuCtxFromGreenCtx(&context, contexts[i]));
        ZERO(cuCtxGetCurrent(&primary));
        ZERO(cuCtxSetCurrent(context));
        work<<<32, 256>>>(memory[i], n, 9);
        CHECK(cudaDeviceSynchronize());
        ZERO(cuCtxSetCurrent(primary));
        print("by context", download(memory[i], n));
        ZERO(cuStreamDestroy(streams[i]));
        ZERO(cuGreenCtxDestroy(contexts[i]));
    }
    return 0;
}
