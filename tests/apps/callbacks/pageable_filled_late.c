// A callback fills pageable memory that an asynchronous copy behind it in the stream reads: of 3 MiB the driver takes the first 2 MiB
// before the callback has filled them, and the rest after
#include "check.h"
#include <unistd.h>

enum { N = 3 << 18, BYTES = N * sizeof(int) };

static void CUDA_CB fill(void *place)
{
    int *numbers = place, i;

    usleep(500000);
    for (i = 0; i < N; i++)
        numbers[i] = 2;
}

int main(void)
{
    int *numbers = malloc(BYTES), *back = malloc(BYTES), i, old = 0;
    CUdeviceptr memory;
    CUstream stream;

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    memory = allocate(BYTES);
    for (i = 0; i < N; i++)
        numbers[i] = 1;
    CHECK(cuLaunchHostFunc(stream, fill, numbers));
    CHECK(cuMemcpyHtoDAsync(memory, numbers, BYTES, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(back, memory, BYTES));
    for (i = 0; i < N; i++)
        old += back[i] == 1;
    printf("%d from before\n", old);
    free(numbers);
    free(back);
    return 0;
}
