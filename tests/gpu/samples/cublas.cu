// cuBLAS: levels 1 to 3, pointer modes, batches, half precision on tensor cores, streams, a captured graph
// nvcc: -lcublas
#include "sample.h"
#include <cublas_v2.h>
#include <cuda_fp16.h>

int main()
{
    const int n = 96;
    std::vector<float> a = numbers(n * n, 10), b = numbers(n * n, 7), wanted(n * n);
    float *device_a = upload(a), *device_b = upload(b), *c = allocate<float>(n * n), one = 1, zero = 0, dot;
    cublasHandle_t handle;
    cudaStream_t stream;
    ZERO(cublasCreate(&handle));
    CHECK(cudaStreamCreate(&stream));
    ZERO(cublasSetStream(handle, stream));
    ZERO(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &one, device_a, n, device_b, n, &zero, c, n));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                wanted[j * n + i] += a[k * n + i] * b[k * n + j];
    std::vector<float> results = download(c, n * n);
    REQUIRE(results == wanted);
    print("gemm", results);
    ZERO(cublasSdot(handle, n * n, device_a, 1, device_b, 1, &dot));
    float wanted_dot = 0;
    for (int i = 0; i < n * n; i++)
        wanted_dot += a[i] * b[i];
    REQUIRE(dot == wanted_dot);
    // Results on the device
    ZERO(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE));
    int *index = allocate<int>(1);
    float *norm = allocate<float>(1);
    ZERO(cublasIsamax(handle, n * n, device_a, 1, index));
    ZERO(cublasSasum(handle, n * n, device_a, 1, norm));
    ZERO(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
    CHECK(cudaStreamSynchronize(stream));
    printf("dot %g, largest at %d, sum %g\n", dot, download(index, 1)[0], download(norm, 1)[0]);
    ZERO(cublasSgemv(handle, CUBLAS_OP_T, n, n, &one, device_a, n, device_b, 1, &one, c, 1));
    ZERO(cublasStrsm(handle, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N, CUBLAS_DIAG_UNIT, n, 4, &one, device_a, n, c, n));
    CHECK(cudaStreamSynchronize(stream));
    print("gemv, trsm", download(c, n));

    // A batch of pointers in device memory
    const int batch = 6, small = 16;
    std::vector<float *> pointers;
    for (int i = 0; i < batch; i++)
        for (float *from : {device_a, device_b, c})
            pointers.push_back(from + i * small * small);
    std::vector<float *> sorted;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < batch; i++)
            sorted.push_back(pointers[i * 3 + k]);
    float **arrays = upload(sorted);
    ZERO(cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, small, small, small, &one, arrays, small, arrays + batch, small,
        &zero, arrays + 2 * batch, small, batch));
    CHECK(cudaStreamSynchronize(stream));
    print("batch", download(c, batch * small * small));

    std::vector<__half> halves(n * n);
    for (int i = 0; i < n * n; i++)
        halves[i] = __float2half(a[i]);
    __half *device_h = upload(halves);
    ZERO(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, device_h, CUDA_R_16F, n, device_h, CUDA_R_16F, n, &zero, c,
        CUDA_R_32F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    CHECK(cudaStreamSynchronize(stream));
    print("half", download(c, n * n));

    void *workspace;
    CHECK(cudaMalloc(&workspace, 32 << 20));
    ZERO(cublasSetWorkspace(handle, workspace, 32 << 20));
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    ZERO(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, device_a, n, device_b, n, &one, c, n));
    ZERO(cublasSscal(handle, n * n, &one, c, 1));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 3; i++)
        CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    print("graph", download(c, n * n));
    ZERO(cublasDestroy(handle));
    return 0;
}
