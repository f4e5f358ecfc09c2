// cuRAND: generators called by the host, in several sequences and distributions, and generators inside of kernels
// nvcc: -lcurand
#include "sample.h"
#include <curand.h>
#include <curand_kernel.h>

__global__ void start(curandState *states, unsigned long long seed)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curand_init(seed, i, 0, &states[i]);
}

__global__ void count_hits(curandState *states, unsigned *hits, int tries)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandState state = states[i];
    unsigned count = 0;
    for (int k = 0; k < tries; k++) {
        float x = curand_uniform(&state), y = curand_uniform(&state);
        count += x * x + y * y <= 1;
    }
    states[i] = state;
    hits[i] = count;
}

__global__ void philox(float4 *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandStatePhilox4_32_10_t state;
    curand_init(99, i, 0, &state);
    out[i] = curand_normal4(&state);
}

int main()
{
    const int n = 10000;
    float *values = allocate<float>(n);
    for (auto type : {CURAND_RNG_PSEUDO_DEFAULT, CURAND_RNG_PSEUDO_MRG32K3A, CURAND_RNG_PSEUDO_MTGP32, CURAND_RNG_PSEUDO_MT19937,
             CURAND_RNG_PSEUDO_PHILOX4_32_10, CURAND_RNG_QUASI_SOBOL32}) {
        curandGenerator_t generator;
        ZERO(curandCreateGenerator(&generator, type));
        if (type != CURAND_RNG_QUASI_SOBOL32)
            ZERO(curandSetPseudoRandomGeneratorSeed(generator, 1234));
        ZERO(curandGenerateUniform(generator, values, n));
        std::vector<float> results = download(values, n);
        double mean = 0;
        for (float value : results)
            mean += value / n;
        REQUIRE(mean > 0.47 && mean < 0.53);
        print("uniform", results);
        ZERO(curandGenerateNormal(generator, values, n, 5, 2));
        print("normal", download(values, n));
        ZERO(curandDestroyGenerator(generator));
    }
    curandGenerator_t host;
    std::vector<unsigned> integers(n);
    ZERO(curandCreateGeneratorHost(&host, CURAND_RNG_PSEUDO_XORWOW));
    ZERO(curandSetPseudoRandomGeneratorSeed(host, 7));
    ZERO(curandGenerate(host, integers.data(), n));
    print("on the host", integers);
    ZERO(curandDestroyGenerator(host));

    const int threads = 2048, tries = 500;
    curandState *states = allocate<curandState>(threads);
    unsigned *hits = allocate<unsigned>(threads);
    start<<<threads / 256, 256>>>(states, 42);
    for (int turn = 0; turn < 2; turn++) {
        count_hits<<<threads / 256, 256>>>(states, hits, tries);
        std::vector<unsigned> results = download(hits, threads);
        double pi = 0;
        for (unsigned count : results)
            pi += 4.0 * count / tries / threads;
        REQUIRE(pi > 3.13 && pi < 3.15);
        print("hits", results);
    }
    float4 *fours = allocate<float4>(threads);
    philox<<<threads / 256, 256>>>(fours);
    print("philox", download(fours, threads));
    return 0;
}
