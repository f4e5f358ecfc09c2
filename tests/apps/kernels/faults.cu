// Writes where nothing is mapped
extern "C" __global__ void write_nowhere(int *out)
{
    out[0] = 1;
    *(volatile int *)0x10 = 2;
}

// Spins until the host writes a value into mapped memory
extern "C" __global__ void wait_for_host(volatile int *flag, int *out)
{
    while (*flag == 0)
        ;
    *out = *flag + 1;
}

// Takes about `rounds` steps, so that a test can see work in flight
extern "C" __global__ void busy(unsigned rounds, unsigned *out)
{
    unsigned x = 1;
    for (unsigned i = 0; i < rounds; i++)
        x = x * 1664525u + 1013904223u;
    *out = x;
}

// Adds two to every element, in place: order matters when mixed with `twice`
extern "C" __global__ void add_two(int *data, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] += 2;
}

extern "C" __global__ void twice(int *data, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] *= 2;
}
