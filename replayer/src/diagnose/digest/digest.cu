// What memory holds as a sum of 128 bits, a summand for each word at its place: the order does not matter. Words that lead into memory that
// has moved count as the recorded addresses.

struct moved {
    unsigned long long live, length, recorded;
};

static __device__ unsigned long long mixed(unsigned long long word)
{
    word = (word ^ word >> 32) * 0xd6e8feb86659fd93;
    word = (word ^ word >> 32) * 0xd6e8feb86659fd93;
    return word ^ word >> 32;
}

extern "C" __global__ void digest(const unsigned long long *memory, unsigned long long words, const moved *ranges, unsigned count,
    unsigned long long *sums)
{
    unsigned long long low = 0, high = 0, stride = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long first = count ? ranges[0].live : 0, end = count ? ranges[count - 1].live + ranges[count - 1].length : 0;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += stride) {
        unsigned long long word = memory[i];
        if (word >= first && word < end)
            for (unsigned n = 0; n < count; n++)
                if (word - ranges[n].live < ranges[n].length) {
                    word += ranges[n].recorded - ranges[n].live;
                    break;
                }
        word = mixed(word + (i + 1) * 0x9e3779b97f4a7c15);
        low += word;
        high += (word ^ word >> 32) * 0xd6e8feb86659fd93;
    }
    atomicAdd(&sums[0], low);
    atomicAdd(&sums[1], high);
}
