// Products on tensor cores: wmma with half, bfloat16, TF32, double and 8-bit integers; mma in PTX
#include "sample.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

template <class In, class Out, int M, int N, int K, class Fragment = In>
__global__ void multiply(const In *a, const In *b, Out *c)
{
    wmma::fragment<wmma::matrix_a, M, N, K, Fragment, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, M, N, K, Fragment, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, M, N, K, Out> sum;
    wmma::fill_fragment(sum, Out(0));
    for (int k = 0; k < 64; k += K) {
        wmma::load_matrix_sync(left, a + k, 64);
        wmma::load_matrix_sync(right, b + k, 64);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c, sum, N, wmma::mem_row_major);
}

// One 16x8x16 product as the machine has it
__global__ void by_instruction(const unsigned *a, const unsigned *b, float *out)
{
    unsigned lane = threadIdx.x;
    float d[4] = {};
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[lane]), "r"(a[lane + 32]), "r"(a[lane + 64]), "r"(a[lane + 96]), "r"(b[lane]), "r"(b[lane + 32]));
    for (int i = 0; i < 4; i++)
        out[lane * 4 + i] = d[i];
}

template <class In, class Out, int M, int N, int K, class Fragment = In> static void try_with(const char *what)
{
    std::vector<In> a(M * 64), b(N * 64);
    for (int i = 0; i < M * 64; i++)
        a[i] = In(float(number(i) % 9) - 4);
    for (int i = 0; i < N * 64; i++)
        b[i] = In(float(number(i + 5000) % 9) - 4);
    Out *c = allocate<Out>(M * N);
    multiply<In, Out, M, N, K, Fragment><<<1, 32>>>(upload(a), upload(b), c);
    CHECK(cudaGetLastError());
    std::vector<Out> results = download(c, M * N);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0;
            for (int k = 0; k < 64; k++)
                sum += float(a[i * 64 + k]) * float(b[j * 64 + k]);
            REQUIRE(float(results[i * N + j]) == sum);
        }
    print(what, results);
}

int main()
{
    try_with<__half, float, 16, 16, 16>("half");
    try_with<__half, float, 32, 8, 16>("half, tall");
    try_with<__nv_bfloat16, float, 16, 16, 16>("bfloat16");
    try_with<float, float, 16, 16, 8, wmma::precision::tf32>("TF32");
    try_with<double, double, 8, 8, 4>("double");
    try_with<signed char, int, 16, 16, 16>("integer");
    std::vector<__half> halves(512);
    for (int i = 0; i < 512; i++)
        halves[i] = __float2half(float(number(i) % 5));
    __half *in = upload(halves);
    float *out = allocate<float>(128);
    by_instruction<<<1, 32>>>(reinterpret_cast<unsigned *>(in), reinterpret_cast<unsigned *>(in) + 128, out);
    print("instruction", download(out, 128));
    return 0;
}
