// Copies, so that a kernel reads or writes memory of whatever kind
extern "C" __global__ void take(int *to, const int *from, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] = from[i];
}

// Changes every element by its old value and its place
extern "C" __global__ void pass(int *data, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] = data[i] * 3 + i;
}

// Does the same to each of some arrays
extern "C" __global__ void pass_each(int *const *arrays, int count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int array = 0; i < n && array < count; array++)
        arrays[array][i] = arrays[array][i] * 3 + i;
}
