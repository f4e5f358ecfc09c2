// A hundred kernels and as many variables, of which some are used; loaded lazily and eagerly
// with eager: CUDA_MODULE_LOADING=EAGER
#include "sample.h"

template <int N> __device__ int variable = N;

template <int N> __global__ void kernel(int *values, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = values[i] * 3 + N + variable<N>;
}

template <int N> static void launch(int which, int *values, int n)
{
    if (which == N)
        kernel<N><<<(n + 127) / 128, 128>>>(values, n);
    else if constexpr (N > 0)
        launch<N - 1>(which, values, n);
}

int main()
{
    const int n = 5000;
    std::vector<int> values = numbers<int>(n, 10);
    int *device = upload(values);
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, kernel<50>));
    for (int which = 3; which < 100; which += 8) {
        launch<99>(which, device, n);
        CHECK(cudaGetLastError());
        for (int &value : values)
            value = unsigned(value) * 3 + 2 * which;
    }
    std::vector<int> results = download(device, n);
    REQUIRE(results == values);
    print("results", results);
    int changed = 1000, back;
    CHECK(cudaMemcpyToSymbol(variable<42>, &changed, sizeof changed));
    launch<99>(42, device, n);
    CHECK(cudaMemcpyFromSymbol(&back, variable<42>, sizeof back));
    REQUIRE(back == 1000 && download(device, 1)[0] == int(unsigned(values[0]) * 3 + 1042));
    print("changed", download(device, n));
    return 0;
}
