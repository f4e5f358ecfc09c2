// Many instructions in few lines: each output word is one expression over two inputs
extern "C" __global__ void integers(const int *a, const int *b, long long *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int x = a[i], y = b[i];
    unsigned u = x, v = y;
    long long *o = out + i * 16;
    o[0] = (long long)x * y;
    o[1] = __mulhi(x, y);
    o[2] = (unsigned)__umulhi(u, v);
    o[3] = x / (y | 1);
    o[4] = u % (v | 1);
    o[5] = min(x, y);
    o[6] = max(u, v);
    o[7] = abs(x) - (x >> (y & 15)) + (u << (v & 7));
    o[8] = __popc(u) + __clz(v) + __ffs(y);
    o[9] = __brev(u);
    o[10] = (signed char)x + (short)y;
    o[11] = ((unsigned long long)u << 32 | v) / 10;
    o[12] = (u >> 5 & 0x3ff) | (v << 20);
    o[13] = __byte_perm(u, v, 0x5140);
    o[14] = __funnelshift_l(u, v, 7);
    o[15] = ~x ^ y;
}

extern "C" __global__ void floats(const float *a, const double *b, double *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = a[i];
    double y = b[i];
    double *o = out + i * 16;
    o[0] = x + y;
    o[1] = fmaf(x, 2.5f, -1.0f);
    o[2] = fma(y, 3.0, (double)x);
    o[3] = sqrtf(fabsf(x));
    o[4] = sqrt(fabs(y));
    o[5] = x / 3.0f;
    o[6] = y / 7.0;
    o[7] = __sinf(x) + __cosf(x);
    o[8] = exp2f(x);
    o[9] = (int)x;
    o[10] = (unsigned char)(unsigned)fabs(y);
    o[11] = floorf(x) + ceilf(x) + rintf(x);
    o[12] = fminf(x, 1.0f) + fmax(y, 2.0);
    o[13] = rsqrtf(fabsf(x) + 1);
    o[14] = x > 0 ? log2f(x) : -x;
    o[15] = (float)(long long)(y * 1000);
}

// Local memory: an array indexed at run time, and pointers of unknown kind to it and to shared memory
extern "C" __global__ void generic_pointers(int *out, int n)
{
    __shared__ int shared[64];
    int local[8];
    int t = threadIdx.x;
    for (int k = 0; k < 8; k++)
        local[k] = k * t;
    shared[t % 64] = t;
    __syncthreads();
    int *p = t % 2 ? &local[t % 8] : &shared[(t + 1) % 64];
    if (t < n)
        out[t] = *p + local[(t + n) % 8];
}
