// Device functions by pointer: in variables, read by the host and given back as arguments, in structs and in memory
// nvcc separate: -rdc=true
#include "sample.h"

typedef float (*Operation)(float, float);

__device__ float add(float a, float b) { return a + b; }
__device__ float multiply(float a, float b) { return a * b; }
__device__ float smaller(float a, float b) { return a < b ? a : b; }

__device__ Operation add_pointer = add, multiply_pointer = multiply;
__device__ Operation operations[3] = {add, multiply, smaller};

struct Step {
    Operation operation;
    float with;
};

__global__ void apply(Operation operation, float *values, float with) { values[threadIdx.x] = operation(values[threadIdx.x], with); }

__global__ void apply_all(const Step *steps, int count, float *values)
{
    for (int i = 0; i < count; i++)
        values[threadIdx.x] = steps[i].operation(values[threadIdx.x], steps[i].with);
}

__global__ void choose(int which, float *values) { values[threadIdx.x] = operations[which](values[threadIdx.x], threadIdx.x); }

int main()
{
    const int n = 256;
    std::vector<float> values = numbers(n);
    float *device = upload(values);
    Operation plus, times, all[3];
    CHECK(cudaMemcpyFromSymbol(&plus, add_pointer, sizeof plus));
    CHECK(cudaMemcpyFromSymbol(&times, multiply_pointer, sizeof times));
    CHECK(cudaMemcpyFromSymbol(all, operations, sizeof all));
    apply<<<1, n>>>(plus, device, 3);
    apply<<<1, n>>>(times, device, 2);
    Step steps[] = {{all[2], 900}, {all[0], -1}, {all[1], 4}};
    apply_all<<<1, n>>>(upload(std::vector<Step>(steps, steps + 3)), 3, device);
    choose<<<1, n>>>(0, device);
    std::vector<float> results = download(device, n);
    for (int i = 0; i < n; i++) {
        float value = (values[i] + 3) * 2;
        value = value < 900 ? value : 900;
        REQUIRE(results[i] == (value - 1) * 4 + i);
    }
    print("applied", results);
    return 0;
}
