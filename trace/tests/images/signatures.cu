// Kernels for their parameters alone: alignments and sizes of every sort. What `../parameters.rs` expects of them is written
// by hand.
struct Small { char a; short b; };
struct Big { int x[5]; double d; char tail; };
struct __align__(64) Wide { float v[16]; };
struct __align__(128) Widest { float v[32]; };
struct Odd { char a, b, c; };
struct Empty {};
struct OverFourKiB { int v[1100]; };
struct OverFourteenBits { int v[5000]; };
struct Holder { double *pointer; };

extern "C" {
__global__ void nothing() {}
__global__ void one(int *out) {}
__global__ void chars(char a, signed char b, bool c, short d, char e, char *out) {}
__global__ void wide(unsigned n, unsigned long long big, Wide w, float4 q, char t, double *p) {}
__global__ void widest(char a, Widest w, char b) {}
__global__ void structs(Small s, Big b, Odd o, const float *in, float2 f2, int3 i3, char4 c4, float *out) {}
__global__ void empty(Empty e, int n, int *out) {}
__global__ void longs(long long a, int b, long c, Holder h, double d, const double *__restrict__ in) {}
__global__ void four_kib(char c, OverFourKiB h, int *out, int i) {}
__global__ void fourteen_bits(char c, OverFourteenBits h, int *out, int i) {}
__global__ void constant(const __grid_constant__ Big b, int *out) {}
__global__ void textures(cudaTextureObject_t t, cudaSurfaceObject_t s, int n) {}

#define TEN(a, b) int a##0, char a##1, short a##2, double a##3, b a##4, float a##5, char a##6, char3 a##7, int2 a##8, char a##9
__global__ void many(TEN(a, int), TEN(b, short2), TEN(c, Odd), TEN(d, int4), int *out) {}
}

namespace {
struct Local { short s[3]; };
}
template <class T, int N> __global__ void templated(T *a, T b, const T *c) {}
template __global__ void templated<double, 3>(double *, double, const double *);
template __global__ void templated<float4, 1>(float4 *, float4, const float4 *);
