extern "C" __device__ int weight = 5;

__device__ int weigh(int value, int weight)
{
    return value * weight + 1;
}
