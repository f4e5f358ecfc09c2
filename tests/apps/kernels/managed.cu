// Variables in managed memory: one that the CPU sets, one that points to other memory, one that the kernel sets
__managed__ unsigned factor = 3;
__managed__ const unsigned *current;
__managed__ unsigned rounds[4];

extern "C" __global__ void follow(unsigned *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = current[i] * factor;
    if (i == 0)
        rounds[factor % 4] += factor;
}
