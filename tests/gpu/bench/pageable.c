// Copies of long pageable buffers to the device and back, the device memory in stream order: how fast a replay moves payloads and
// results beside the program. Arguments: MiB of a buffer (128), how many copies to the device (64), how many of four bring new content
// (1; the others bring what the one before them brought). Half as many copies come back. Prints `bare<TAB>GB/s<TAB>value`.
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(call)                                                                                                                    \
    do {                                                                                                                               \
        CUresult result_ = (call);                                                                                                     \
        if (result_ != CUDA_SUCCESS) {                                                                                                 \
            fprintf(stderr, "%s gives %d\n", #call, result_);                                                                          \
            exit(1);                                                                                                                   \
        }                                                                                                                              \
    } while (0)

static double seconds(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

int main(int count, char **arguments)
{
    size_t bytes = (size_t)(count > 1 ? atoi(arguments[1]) : 128) << 20, at;
    int copies = count > 2 ? atoi(arguments[2]) : 64, fresh = count > 3 ? atoi(arguments[3]) : 1, copy;
    uint64_t *from = malloc(bytes), *to = malloc(bytes), state = 1;
    double took = 0, began, moved = 0;
    CUdeviceptr memory;
    CUcontext context;
    CUstream stream;
    CUdevice device;

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (copy = 0; copy < copies; copy++) {
        for (at = 0; (copy == 0 || copy % 4 < fresh) && at < bytes / sizeof *from; at++)
            from[at] = state = state * 6364136223846793005u + 1442695040888963407u;
        began = seconds();
        CHECK(cuMemAllocAsync(&memory, bytes, stream));
        CHECK(cuMemcpyHtoDAsync(memory, from, bytes, stream));
        moved += bytes;
        if (copy % 2 == 0) {
            CHECK(cuMemcpyDtoHAsync(to, memory, bytes, stream));
            moved += bytes;
        }
        CHECK(cuMemFreeAsync(memory, stream));
        CHECK(cuStreamSynchronize(stream));
        took += seconds() - began;
        if (copy % 2 == 0 && to[bytes / sizeof *to - 1] != from[bytes / sizeof *from - 1])
            return 2;
    }
    printf("bare\tGB/s\t%.2f\n", moved / took / 1e9);
    return 0;
}
