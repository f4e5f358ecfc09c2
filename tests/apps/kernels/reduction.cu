// partial[block] = sum of the block's elements; shared memory of blockDim.x floats, given at launch
extern "C" __global__ void tree_sum(const float *in, float *partial, unsigned n)
{
    extern __shared__ float part[];
    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;

    part[t] = i < n ? in[i] : 0;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        if (t < half)
            part[t] += part[t + half];
        __syncthreads();
    }
    if (t == 0)
        partial[blockIdx.x] = part[0];
}

// The same by exchanges within a warp; one atomic addition a warp
extern "C" __global__ void warp_sum(const int *in, int *total, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = i < n ? in[i] : 0;

    for (int lanes = 16; lanes; lanes /= 2)
        value += __shfl_down_sync(0xffffffff, value, lanes);
    if (threadIdx.x % 32 == 0)
        atomicAdd(total, value);
}
