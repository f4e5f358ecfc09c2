// half, bfloat16, FP8, FP6 and FP4 values: conversions, arithmetic on pairs, atomics
#include "sample.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

__global__ void pairs(const __half2 *a, const __half2 *b, __half2 *out, __half *sum, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = __hfma2(a[i], b[i], __float2half2_rn(1));
        if (i < 64)
            atomicAdd(sum, __low2half(a[i]));
    }
}

__global__ void convert(const float *in, __nv_bfloat16 *wide, __nv_fp8_e4m3 *e4, __nv_fp8_e5m2 *e5, __nv_fp6_e3m2 *six, __nv_fp4_e2m1 *four,
    float *back, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    wide[i] = __float2bfloat16(in[i]) * __float2bfloat16(0.5f);
    e4[i] = __nv_fp8_e4m3(in[i]);
    e5[i] = __nv_fp8_e5m2(in[i]);
    six[i] = __nv_fp6_e3m2(in[i] / 64);
    four[i] = __nv_fp4_e2m1(in[i] / 256);
    back[i] = float(e4[i]) + float(e5[i]) + float(six[i]) + float(four[i]);
}

int main()
{
    const int n = 2048;
    std::vector<__half2> a(n), b(n);
    for (int i = 0; i < n; i++) {
        a[i] = __floats2half2_rn(number(i) % 16, number(i + n) % 16);
        b[i] = __floats2half2_rn(number(i + 2 * n) % 16, number(i + 3 * n) % 16);
    }
    __half2 *out = allocate<__half2>(n);
    __half *sum = allocate<__half>(2);
    CHECK(cudaMemset(sum, 0, 4));
    pairs<<<n / 256, 256>>>(upload(a), upload(b), out, sum, n);
    std::vector<__half2> results = download(out, n);
    float wanted = 0;
    for (int i = 0; i < n; i++) {
        REQUIRE(__low2float(results[i]) == __low2float(a[i]) * __low2float(b[i]) + 1);
        wanted += i < 64 ? __low2float(a[i]) : 0;
    }
    REQUIRE(__half2float(download(sum, 1)[0]) == wanted);
    print("pairs", results);
    std::vector<float> values = numbers(n, 400);
    auto wide = allocate<__nv_bfloat16>(n);
    auto e4 = allocate<__nv_fp8_e4m3>(n);
    auto e5 = allocate<__nv_fp8_e5m2>(n);
    auto six = allocate<__nv_fp6_e3m2>(n);
    auto four = allocate<__nv_fp4_e2m1>(n);
    float *back = allocate<float>(n);
    convert<<<n / 256, 256>>>(upload(values), wide, e4, e5, six, four, back, n);
    std::vector<__nv_fp8_e4m3> eights = download(e4, n);
    std::vector<__nv_bfloat16> wides = download(wide, n);
    for (int i = 0; i < n; i++) {
        REQUIRE(float(eights[i]) == float(__nv_fp8_e4m3(values[i])));
        REQUIRE(fabsf(__bfloat162float(wides[i]) - values[i] / 2) <= values[i] / 256);
    }
    print("bfloat16", wides);
    print("e4m3", eights);
    print("e5m2", download(e5, n));
    print("e3m2", download(six, n));
    print("e2m1", download(four, n));
    print("back", download(back, n));
    return 0;
}
