// An iteration that ends when a result brought back says so: by launches, by a graph brought up to date each time, in one launch
#include "sample.h"
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

enum { N = 128 };

__device__ unsigned arrived;

__global__ void step(const float *matrix, const float *right, const float *x, float *next, float *error)
{
    int row = blockIdx.x;
    __shared__ float partial[N];
    partial[threadIdx.x] = int(threadIdx.x) == row ? 0 : matrix[row * N + threadIdx.x] * x[threadIdx.x];
    for (int half = N / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            partial[threadIdx.x] += partial[threadIdx.x + half];
    }
    if (threadIdx.x)
        return;
    next[row] = (right[row] - partial[0]) / matrix[row * N + row];
    error[1 + row] = fabsf(next[row] - x[row]);
    // The last block to arrive adds up what all have left
    __threadfence();
    if (atomicInc(&arrived, N - 1) == N - 1) {
        float sum = 0;
        for (int i = 0; i < N; i++)
            sum += *static_cast<volatile float *>(&error[1 + i]);
        error[0] = sum;
    }
}

int main()
{
    std::vector<float> matrix = numbers(N * N, 3), right = numbers(N, 1000), zeros(N);
    for (int i = 0; i < N; i++)
        matrix[i * N + i] = 500 + i;
    float *device = upload(matrix), *b = upload(right), *x[2], *error = allocate<float>(N + 1), *seen;
    for (auto &one : x)
        one = upload(zeros);
    CHECK(cudaMallocHost(&seen, sizeof(float)));
    int launches = 0;
    do {
        step<<<N, N>>>(device, b, x[launches % 2], x[1 - launches % 2], error);
        CHECK(cudaMemcpy(seen, error, sizeof(float), cudaMemcpyDeviceToHost));
        launches++;
    } while (*seen > 1e-3f && launches < 200);
    std::vector<float> solution = download(x[launches % 2], N);
    for (int i = 0; i < N; i++) {
        float sum = 0;
        for (int j = 0; j < N; j++)
            sum += matrix[i * N + j] * solution[j];
        REQUIRE(fabsf(sum - right[i]) < 0.5f);
    }
    printf("%d launches\n", launches);
    print("solution", solution);

    for (auto &one : x)
        CHECK(cudaMemcpy(one, zeros.data(), N * sizeof(float), cudaMemcpyHostToDevice));
    cudaStream_t stream;
    cudaGraphExec_t executable = nullptr;
    CHECK(cudaStreamCreate(&stream));
    int rounds = 0;
    do {
        cudaGraph_t graph;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        step<<<N, N, 0, stream>>>(device, b, x[rounds % 2], x[1 - rounds % 2], error);
        CHECK(cudaMemcpyAsync(seen, error, sizeof(float), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamEndCapture(stream, &graph));
        cudaGraphExecUpdateResultInfo info;
        if (!executable || cudaGraphExecUpdate(executable, graph, &info) != cudaSuccess)
            CHECK(cudaGraphInstantiate(&executable, graph, 0));
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaGraphLaunch(executable, stream));
        CHECK(cudaStreamSynchronize(stream));
        rounds++;
    } while (*seen > 1e-3f && rounds < 200);
    REQUIRE(rounds == launches && download(x[rounds % 2], N) == solution);
    printf("%d rounds\n", rounds);
    return 0;
}
