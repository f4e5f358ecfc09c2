// The other source of separate.cu
__device__ int counter = 5;
__constant__ float offsets[4];

__device__ float twice(float value) { return value * 2; }

__global__ void other_kernel(float *values) { values[threadIdx.x] *= offsets[threadIdx.x % 4]; }
