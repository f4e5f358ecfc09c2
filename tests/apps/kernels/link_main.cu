// Half of a program to be linked: the other half is in link_part.cu
extern __device__ int weigh(int value, int weight);
extern "C" __device__ int weight;

extern "C" __global__ void weigh_all(int *data, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] = weigh(data[i], weight);
}
