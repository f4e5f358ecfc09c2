// Device functions that stay calls in the PTX; with C linkage, for a static one is named after a hash of the path
extern "C" __device__ __noinline__ int collatz(unsigned n)
{
    int steps = 0;
    for (; n != 1; steps++)
        n = n % 2 ? 3 * n + 1 : n / 2;
    return steps;
}

extern "C" __device__ __noinline__ unsigned fibonacci(unsigned n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

extern "C" __global__ void call_functions(int *steps, unsigned *numbers, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    steps[i] = collatz(i + 1);
    numbers[i] = fibonacci(i % 12);
}
