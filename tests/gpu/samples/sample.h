// Shared by the samples: they stop with exit status 1 at the first thing that is not as it should be.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

#define EXPECT(wanted, call) sample::expect(call, wanted, #call, __FILE__, __LINE__)
#define CHECK(call) EXPECT(cudaSuccess, call)
#define REQUIRE(condition) ((condition) ? (void)0 : sample::failed(#condition, __FILE__, __LINE__))
// For results of libraries, of which all call success 0
#define ZERO(call) sample::zero(static_cast<int>(call), #call, __FILE__, __LINE__)

namespace sample {

inline void failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, what);
    exit(1);
}

inline void zero(int result, const char *call, const char *file, int line)
{
    if (result != 0) {
        fprintf(stderr, "%s:%d: %s: %d\n", file, line, call, result);
        exit(1);
    }
}

inline void expect(cudaError_t result, cudaError_t wanted, const char *call, const char *file, int line)
{
    if (result != wanted) {
        fprintf(stderr, "%s:%d: %s: %s, expected %s\n", file, line, call, cudaGetErrorName(result), cudaGetErrorName(wanted));
        exit(1);
    }
}

template <class T> T *allocate(size_t count)
{
    T *memory;
    CHECK(cudaMalloc(&memory, count * sizeof(T)));
    return memory;
}

template <class T> T *upload(const std::vector<T> &from)
{
    T *memory = allocate<T>(from.size());
    CHECK(cudaMemcpy(memory, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
    return memory;
}

template <class T> std::vector<T> download(const T *memory, size_t count)
{
    std::vector<T> to(count);
    CHECK(cudaMemcpy(to.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost));
    return to;
}

// One line a result: how many elements, and a hash of their bytes
template <class T> void print(const char *what, const std::vector<T> &values)
{
    uint64_t hash = 0xcbf29ce484222325;
    auto bytes = reinterpret_cast<const unsigned char *>(values.data());
    for (size_t i = 0; i < values.size() * sizeof(T); i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3;
    printf("%s: %zu, %016llx\n", what, values.size(), (unsigned long long)hash);
}

// Numbers that look random and are the same everywhere
inline uint32_t number(uint32_t i)
{
    i = (i ^ 61) ^ (i >> 16);
    i *= 9;
    i ^= i >> 4;
    i *= 0x27d4eb2d;
    return i ^ (i >> 15);
}

template <class T = float> std::vector<T> numbers(size_t count, uint32_t below = 1000)
{
    std::vector<T> values(count);
    for (size_t i = 0; i < count; i++)
        values[i] = T(number(uint32_t(i)) % below);
    return values;
}

} // namespace sample

using namespace sample;
