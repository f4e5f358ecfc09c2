// Results that no two runs have in common
extern "C" __global__ void stamp(unsigned long long *out)
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    *out = now;
}

// The same, at an address that stands in memory
extern "C" __global__ void stamp_through(unsigned long long **table)
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    **table = now;
}
