extern "C" {
__device__ unsigned launches = 3;
__device__ int table[4] = {10, 20, 30, 40};
__constant__ float factor[2] = {2.0f, 0.5f};
__device__ int *target;
}

// Uses a __device__ variable, a __constant__ one, and a pointer that the host stores in a variable
extern "C" __global__ void use_globals(float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0)
        atomicAdd(&launches, 1);
    if (i < n)
        out[i] = i * factor[i % 2] + table[i % 4];
    if (i < n && target)
        target[i] = i;
}
