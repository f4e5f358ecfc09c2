struct Job {
    char tag;
    double scale;
    const int *in;
    int *out;
    short counts[3];
};

// A struct by value: pointers at offsets 16 and 24, an array indexed at run time
extern "C" __global__ void run_job(Job job, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        job.out[i] = (int)(job.in[i] * job.scale) + job.counts[i % 3] + job.tag;
}

// A char, then a float4 at offset 16
extern "C" __global__ void scale_quads(char times, float4 by, float4 *quads, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float4 q = quads[i];
    for (int k = 0; k < times; k++)
        q = make_float4(q.x * by.x, q.y * by.y, q.z * by.z, q.w * by.w);
    quads[i] = q;
}
