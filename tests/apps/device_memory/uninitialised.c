// Copies memory to the host of which only half was written; with "reused" in memory that was used before, in stream order; with
// "unordered" that half by two streams
#include "check.h"

enum { N = 1000 };

int main(int count, char **options)
{
    int numbers[N], is_reused = count == 2 && strcmp(options[1], "reused") == 0;
    int is_unordered = count == 2 && strcmp(options[1], "unordered") == 0;
    CUdeviceptr memory;
    CUstream stream, other;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (is_reused) {
        CHECK(cuMemAllocAsync(&memory, sizeof numbers, stream));
        CHECK(cuMemsetD8Async(memory, 7, sizeof numbers, stream));
        CHECK(cuMemFreeAsync(memory, stream));
        CHECK(cuMemAllocAsync(&memory, sizeof numbers, stream));
        CHECK(cuStreamSynchronize(stream));
    } else {
        memory = allocate(sizeof numbers);
    }
    for (int i = 0; i < N; i++)
        numbers[i] = i;
    CHECK(cuMemcpyHtoD(memory, numbers, sizeof numbers / 2));
    if (is_unordered) {
        CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        CHECK(cuMemsetD8Async(memory, 0, 4, stream));
        CHECK(cuMemsetD8Async(memory + 4, 0, 4, other));
        CHECK(cuCtxSynchronize());
    }
    CHECK(cuMemcpyDtoH(numbers, memory, sizeof numbers));
    return numbers[3] != 3;
}
