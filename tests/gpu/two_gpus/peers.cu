// Two devices: a thread for each, copies and kernels across them, variables, managed memory and pools that both use
#include "../samples/sample.h"
#include <thread>

const int N = 1 << 20;
const int BLOCKS = (N + 255) / 256;

__device__ float table[256];

__global__ void scale(const float *from, float *to, int n, float by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] = from[i] * by + 1;
}

__global__ void bump(int *values, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] += i;
}

__global__ void add_table(float *to) { to[threadIdx.x] += table[threadIdx.x]; }

static void sum(const char *what, const float *values, int n)
{
    double total = 0;
    for (int i = 0; i < n; i++)
        total += values[i];
    printf("%s %.3f\n", what, total);
}

static void work(int device, float *host, float *result)
{
    cudaStream_t stream;
    float *from, *to;
    CHECK(cudaSetDevice(device));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&from, N * sizeof(float)));
    CHECK(cudaMallocAsync((void **)&to, N * sizeof(float), stream));
    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < N; i++)
            host[i] = i % 97 + turn + device;
        CHECK(cudaMemcpyAsync(from, host, N * sizeof(float), cudaMemcpyHostToDevice, stream));
        scale<<<BLOCKS, 256, 0, stream>>>(from, to, N, 2 + device);
        CHECK(cudaMemcpyAsync(result, to, N * sizeof(float), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < N; i++)
            REQUIRE(result[i] == host[i] * (2 + device) + 1);
    }
    CHECK(cudaFreeAsync(to, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFree(from));
    CHECK(cudaStreamDestroy(stream));
}

int main()
{
    int count, reach;
    CHECK(cudaGetDeviceCount(&count));
    REQUIRE(count >= 2);
    float *host[2], *result[2], *memory[2];
    for (int device = 0; device < 2; device++) {
        CHECK(cudaHostAlloc(&host[device], N * sizeof(float), cudaHostAllocPortable));
        CHECK(cudaHostAlloc(&result[device], N * sizeof(float), cudaHostAllocPortable));
    }
    std::vector<std::thread> threads;
    for (int device = 0; device < 2; device++)
        threads.emplace_back(work, device, host[device], result[device]);
    for (auto &thread : threads)
        thread.join();

    CHECK(cudaDeviceCanAccessPeer(&reach, 0, 1));
    REQUIRE(reach);
    cudaStream_t stream[2];
    cudaEvent_t event[2];
    for (int device = 0; device < 2; device++) {
        CHECK(cudaSetDevice(device));
        CHECK(cudaDeviceEnablePeerAccess(1 - device, 0));
        CHECK(cudaMalloc(&memory[device], N * sizeof(float)));
        CHECK(cudaStreamCreateWithFlags(&stream[device], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&event[device], cudaEventDisableTiming));
    }
    for (int i = 0; i < N; i++)
        host[0][i] = i % 4096;
    CHECK(cudaMemcpy(memory[0], host[0], N * sizeof(float), cudaMemcpyDefault));
    CHECK(cudaMemcpyPeer(memory[1], 1, memory[0], 0, N * sizeof(float)));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(0));
    CHECK(cudaDeviceSynchronize());
    for (int turn = 0; turn < 6; turn++) {
        scale<<<BLOCKS, 256, 0, stream[0]>>>(memory[1], memory[0], N, 0.5f);
        CHECK(cudaEventRecord(event[0], stream[0]));
        CHECK(cudaSetDevice(1));
        CHECK(cudaStreamWaitEvent(stream[1], event[0], 0));
        CHECK(cudaMemcpyPeerAsync(memory[1], 1, memory[0], 0, N * sizeof(float), stream[1]));
        scale<<<BLOCKS, 256, 0, stream[1]>>>(memory[0], memory[1], N, 1.5f);
        CHECK(cudaEventRecord(event[1], stream[1]));
        CHECK(cudaSetDevice(0));
        CHECK(cudaStreamWaitEvent(stream[0], event[1], 0));
    }
    CHECK(cudaMemcpyAsync(result[0], memory[1], N * sizeof(float), cudaMemcpyDefault, stream[0]));
    CHECK(cudaStreamSynchronize(stream[0]));
    sum("copies", result[0], N);

    cudaMemcpy3DPeerParms box = {};
    box.srcPtr = make_cudaPitchedPtr(memory[0], 1024, 256, 64);
    box.dstPtr = make_cudaPitchedPtr(memory[1], 1024, 256, 64);
    box.dstDevice = 1;
    box.extent = make_cudaExtent(1000, 32, 2);
    CHECK(cudaMemcpy3DPeer(&box));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(result[1], memory[1], 65536 * sizeof(float), cudaMemcpyDefault));
    sum("box", result[1], 65536);

    for (int device = 0; device < 2; device++) {
        float values[256];
        for (int i = 0; i < 256; i++)
            values[i] = i * (device + 1);
        CHECK(cudaSetDevice(device));
        CHECK(cudaMemcpyToSymbol(table, values, sizeof values));
        add_table<<<1, 256>>>(memory[device]);
        CHECK(cudaMemcpy(result[device], memory[device], sizeof values, cudaMemcpyDeviceToHost));
        sum("variable", result[device], 256);
    }

    int *managed;
    CHECK(cudaMallocManaged(&managed, 65536 * sizeof(int)));
    for (int i = 0; i < 65536; i++)
        managed[i] = i;
    for (int turn = 0; turn < 4; turn++) {
        CHECK(cudaSetDevice(turn % 2));
        bump<<<256, 256>>>(managed, 65536);
        CHECK(cudaDeviceSynchronize());
        managed[turn] = 7;
    }
    long total = 0;
    for (int i = 0; i < 65536; i++)
        total += managed[i];
    printf("managed %ld\n", total);

    CHECK(cudaSetDevice(0));
    cudaMemPool_t pool;
    cudaMemAccessDesc access = {};
    access.location = {cudaMemLocationTypeDevice, 1};
    access.flags = cudaMemAccessFlagsProtReadWrite;
    float *pooled;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMallocAsync((void **)&pooled, N * sizeof(float), stream[0]));
    CHECK(cudaMemPoolSetAccess(pool, &access, 1));
    CHECK(cudaMemcpyAsync(pooled, memory[0], N * sizeof(float), cudaMemcpyDeviceToDevice, stream[0]));
    CHECK(cudaEventRecord(event[0], stream[0]));
    CHECK(cudaSetDevice(1));
    CHECK(cudaStreamWaitEvent(stream[1], event[0], 0));
    scale<<<BLOCKS, 256, 0, stream[1]>>>(pooled, memory[1], N, 3);
    CHECK(cudaEventRecord(event[1], stream[1]));
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamWaitEvent(stream[0], event[1], 0));
    CHECK(cudaFreeAsync(pooled, stream[0]));
    CHECK(cudaMemcpyAsync(result[0], memory[1], N * sizeof(float), cudaMemcpyDefault, stream[0]));
    CHECK(cudaStreamSynchronize(stream[0]));
    sum("pool", result[0], N);
    return 0;
}
