// cuBLAS XT: products of matrices that only the CPU has, in tiles on streams and threads of the library's own
// nvcc: -lcublas
#include "sample.h"
#include <cublasXt.h>

int main()
{
    const int n = 700;
    std::vector<float> a = numbers(n * n, 10), b = numbers(n * n, 7), c(n * n, 1);
    float alpha = 1, beta = 2;
    int device = 0;
    cublasXtHandle_t handle;
    ZERO(cublasXtCreate(&handle));
    ZERO(cublasXtDeviceSelect(handle, 1, &device));
    ZERO(cublasXtSetBlockDim(handle, 256));
    for (cublasXtPinnedMemMode_t mode : {CUBLASXT_PINNING_DISABLED, CUBLASXT_PINNING_ENABLED}) {
        ZERO(cublasXtSetPinningMemMode(handle, mode));
        ZERO(cublasXtSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &alpha, a.data(), n, b.data(), n, &beta, c.data(), n));
        print("product", c);
    }
    for (int row : {0, 350, 699}) {
        float sum = 0;
        for (int k = 0; k < n; k++)
            sum += a[k * n + row] * b[k];
        REQUIRE(c[row] == (1 * 2 + sum) * 2 + sum);
    }
    // Half of the work on the CPU's own side: a result in pinned memory
    float *pinned;
    CHECK(cudaMallocHost(&pinned, n * n * sizeof(float)));
    for (int i = 0; i < n * n; i++)
        pinned[i] = i % 5;
    ZERO(cublasXtSsymm(handle, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, n, n, &alpha, a.data(), n, b.data(), n, &beta, pinned, n));
    print("symmetric", std::vector<float>(pinned, pinned + n * n));
    ZERO(cublasXtDestroy(handle));
    CHECK(cudaFreeHost(pinned));
    return 0;
}
