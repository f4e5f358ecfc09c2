#define BINS 256

// Counts bytes with atomic additions in shared memory, then in global memory
extern "C" __global__ void histogram(const unsigned char *data, unsigned n, unsigned *bins)
{
    __shared__ unsigned local[BINS];

    for (unsigned i = threadIdx.x; i < BINS; i += blockDim.x)
        local[i] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[data[i]], 1);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < BINS; i += blockDim.x)
        atomicAdd(&bins[i], local[i]);
}

// out: sum, minimum, maximum, or, a wrapping counter, and the last value exchanged
extern "C" __global__ void atomics(const int *in, unsigned n, int *out, unsigned long long *wide)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    atomicAdd(&out[0], in[i]);
    atomicMin(&out[1], in[i]);
    atomicMax(&out[2], in[i]);
    atomicOr(&out[3], in[i]);
    atomicInc((unsigned *)&out[4], 6);
    atomicExch(&out[5], 42);
    atomicAdd(wide, (unsigned long long)in[i] * 3);
    int seen = out[6], expected;
    do {
        expected = seen;
        seen = atomicCAS(&out[6], expected, expected + 2);
    } while (seen != expected);
}
