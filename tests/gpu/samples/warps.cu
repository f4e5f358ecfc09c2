// What threads of a warp can tell each other: shuffles, votes, matches, reductions, ballots of some; instructions in PTX
#include "sample.h"

__global__ void exchange(const int *in, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, value = in[i], sum = value;
    for (int distance = 1; distance < 32; distance *= 2) {
        int other = __shfl_up_sync(~0u, sum, distance);
        if (lane >= distance)
            sum += other;
    }
    int *mine = out + i * 8;
    mine[0] = sum;
    mine[1] = __shfl_xor_sync(~0u, value, 5);
    mine[2] = __ballot_sync(~0u, value % 3 == 0);
    mine[3] = __any_sync(~0u, value == 17) * 2 + __all_sync(~0u, value < 1000);
    mine[4] = __match_any_sync(~0u, value % 4);
    mine[5] = __reduce_max_sync(~0u, unsigned(value));
    mine[6] = value % 2 ? __popc(__activemask()) : -1;
    mine[7] = __shfl_sync(~0u, value, lane / 2, 16);
}

__global__ void instructions(const unsigned *in, unsigned *out)
{
    unsigned i = threadIdx.x, lane, found, reversed, wide, mask, permuted;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("bfind.u32 %0, %1;" : "=r"(found) : "r"(in[i]));
    asm("brev.b32 %0, %1;" : "=r"(reversed) : "r"(in[i]));
    asm volatile("{\n\t.reg .pred p;\n\tsetp.gt.u32 p, %1, %2;\n\tselp.u32 %0, 11, 22, p;\n\t}" : "=r"(wide) : "r"(in[i]), "r"(1u << 31));
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(mask) : "r"(in[i]), "r"(lane), "r"(reversed));
    asm("prmt.b32 %0, %1, %2, 0x5140;" : "=r"(permuted) : "r"(in[i]), "r"(lane));
    unsigned dot = __dp4a(in[i], permuted, found), sad = __sad(int(in[i] >> 1), int(lane), wide);
    out[i] = lane + found * 32 + (reversed ^ mask) + wide + dot + sad + __byte_perm(in[i], lane, 0x2301) + __funnelshift_l(in[i], lane, 9);
}

int main()
{
    const int n = 1024;
    std::vector<int> values = numbers<int>(n);
    int *out = allocate<int>(n * 8);
    exchange<<<n / 256, 256>>>(upload(values), out);
    std::vector<int> results = download(out, n * 8);
    for (int i = 0; i < n; i++) {
        int sum = 0;
        unsigned votes = 0;
        for (int k = i / 32 * 32; k <= i; k++)
            sum += values[k];
        for (int k = 0; k < 32; k++)
            votes |= unsigned(values[i / 32 * 32 + k] % 3 == 0) << k;
        REQUIRE(results[i * 8] == sum && results[i * 8 + 1] == values[i ^ 5] && unsigned(results[i * 8 + 2]) == votes);
    }
    print("exchanged", results);
    std::vector<unsigned> words(n);
    for (int i = 0; i < n; i++)
        words[i] = number(i);
    unsigned *computed = allocate<unsigned>(n);
    instructions<<<1, n>>>(upload(words), computed);
    print("instructions", download(computed, n));
    return 0;
}
