// Kernel parameters of more than 4 KiB in all, some with addresses in them
#include "sample.h"

struct Large {
    int before;
    float *where[8];
    float factors[1800];
    char odd;
    double last;
};

__global__ void use(const __grid_constant__ Large large, float *out)
{
    int i = threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 8; k++)
        sum += large.where[k][i] * large.factors[(i * 7 + k) % 1800];
    out[i] = sum + large.odd + float(large.last) + large.before;
}

struct __align__(16) Part { char tag; float4 vector; short tail; };

__global__ void mixed(char a, Part part, short b, double c, int3 d, bool e, float *out)
{
    out[0] = a + part.tag + part.vector.x + part.vector.w + part.tail + b + float(c) + d.x + d.z + e;
}

int main()
{
    const int n = 256;
    Large large = {};
    large.before = 5;
    large.odd = 3;
    large.last = 0.5;
    std::vector<float> factors = numbers(1800, 10), values[8];
    memcpy(large.factors, factors.data(), sizeof large.factors);
    for (int k = 0; k < 8; k++) {
        values[k] = numbers(n + k, 100);
        large.where[k] = upload(values[k]) + k;
    }
    float *out = allocate<float>(n);
    use<<<1, n>>>(large, out);
    std::vector<float> results = download(out, n);
    for (int i = 0; i < n; i++) {
        float sum = 0;
        for (int k = 0; k < 8; k++)
            sum += values[k][i + k] * factors[(i * 7 + k) % 1800];
        REQUIRE(results[i] == sum + 8.5f);
    }
    print("large", results);
    mixed<<<1, 1>>>(1, Part{2, {3, 0, 0, 4}, 5}, 6, 7.5, {8, 0, 9}, true, out);
    float sum = download(out, 1)[0];
    REQUIRE(sum == 1 + 2 + 3 + 4 + 5 + 6 + 7.5f + 8 + 9 + 1);
    printf("mixed %g\n", sum);
    return 0;
}
