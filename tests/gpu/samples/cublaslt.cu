// cuBLASLt: a product with bias and ReLU, found by the heuristic; FP8 inputs
// nvcc: -lcublasLt
#include "sample.h"
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

static void multiply(cublasLtHandle_t handle, cudaDataType type, cudaDataType out_type, const void *a, const void *b, void *c, int n,
    const void *bias, void *workspace, size_t space)
{
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t in, out;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found;
    int count;
    float one = 1, zero = 0;
    cublasOperation_t transpose = CUBLAS_OP_T;
    ZERO(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    ZERO(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose));
    if (bias) {
        cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
        ZERO(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
        ZERO(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    }
    ZERO(cublasLtMatrixLayoutCreate(&in, type, n, n, n));
    ZERO(cublasLtMatrixLayoutCreate(&out, out_type, n, n, n));
    ZERO(cublasLtMatmulPreferenceCreate(&preference));
    ZERO(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &space, sizeof space));
    ZERO(cublasLtMatmulAlgoGetHeuristic(handle, product, in, in, out, out, preference, 1, &found, &count));
    REQUIRE(count == 1);
    ZERO(cublasLtMatmul(handle, product, &one, a, in, b, in, &zero, c, out, c, out, &found.algo, workspace, space, 0));
    ZERO(cublasLtMatrixLayoutDestroy(in));
    ZERO(cublasLtMatrixLayoutDestroy(out));
    ZERO(cublasLtMatmulPreferenceDestroy(preference));
    ZERO(cublasLtMatmulDescDestroy(product));
}

int main()
{
    const int n = 128;
    const size_t space = 16 << 20;
    cublasLtHandle_t handle;
    void *workspace;
    CHECK(cudaMalloc(&workspace, space));
    ZERO(cublasLtCreate(&handle));
    std::vector<float> a(n * n), b(n * n), bias = numbers(n, 5);
    std::vector<__nv_fp8_e4m3> small_a(n * n), small_b(n * n);
    for (int i = 0; i < n * n; i++) {
        a[i] = int(number(i) % 5) - 2;
        b[i] = int(number(i + 77777) % 5) - 2;
        small_a[i] = __nv_fp8_e4m3(a[i]);
        small_b[i] = __nv_fp8_e4m3(b[i]);
    }
    float *device_a = upload(a), *device_b = upload(b), *c = allocate<float>(n * n), *device_bias = upload(bias);
    multiply(handle, CUDA_R_32F, CUDA_R_32F, device_a, device_b, c, n, device_bias, workspace, space);
    std::vector<float> results = download(c, n * n), plain(n * n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            for (int k = 0; k < n; k++)
                plain[j * n + i] += a[i * n + k] * b[j * n + k];
            float sum = plain[j * n + i] + bias[i];
            REQUIRE(results[j * n + i] == (sum > 0 ? sum : 0));
        }
    print("bias and relu", results);
    __nv_bfloat16 *wide = allocate<__nv_bfloat16>(n * n);
    multiply(handle, CUDA_R_8F_E4M3, CUDA_R_16BF, upload(small_a), upload(small_b), wide, n, nullptr, workspace, space);
    std::vector<__nv_bfloat16> rounded = download(wide, n * n);
    for (int i = 0; i < n * n; i++)
        REQUIRE(fabsf(__bfloat162float(rounded[i]) - plain[i]) <= fabsf(plain[i]) / 128);
    print("fp8", rounded);
    ZERO(cublasLtDestroy(handle));
    return 0;
}
