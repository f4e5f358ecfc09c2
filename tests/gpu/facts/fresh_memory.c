// Whether memory that is allocated again still holds what it held: by how it was made, its size, and whether something lives beside it
#include "../../apps/check.h"

enum { MARK = 0x5a };

static CUstream stream;

static CUdeviceptr of_driver(size_t size) { CUdeviceptr at; CHECK(cuMemAlloc(&at, size)); return at; }
static void to_driver(CUdeviceptr at) { CHECK(cuMemFree(at)); }
static CUdeviceptr of_pool(size_t size) { CUdeviceptr at; CHECK(cuMemAllocAsync(&at, size, stream)); return at; }
static void to_pool(CUdeviceptr at) { CHECK(cuMemFreeAsync(at, stream)); }
static void to_pool_and_wait(CUdeviceptr at) { CHECK(cuMemFreeAsync(at, stream)); CHECK(cuStreamSynchronize(stream)); }
static CUdeviceptr managed(size_t size) { CUdeviceptr at; CHECK(cuMemAllocManaged(&at, size, CU_MEM_ATTACH_GLOBAL)); return at; }
static CUdeviceptr pinned(size_t size) { void *at; CHECK(cuMemHostAlloc(&at, size, CU_MEMHOSTALLOC_DEVICEMAP)); return (CUdeviceptr)at; }
static void unpin(CUdeviceptr at) { CHECK(cuMemFreeHost((void *)at)); }

static const struct { const char *name; CUdeviceptr (*make)(size_t); void (*end)(CUdeviceptr); } kinds[] = {
    {"cuMemAlloc", of_driver, to_driver}, {"cuMemAllocAsync", of_pool, to_pool}, {"cuMemAllocAsync, waited", of_pool, to_pool_and_wait},
    {"cuMemAllocManaged", managed, to_driver}, {"cuMemHostAlloc", pinned, unpin},
};

// Of so many bytes those that hold the mark
static size_t marked(CUdeviceptr at, size_t size)
{
    unsigned char *bytes = malloc(size);
    size_t found = 0, zeros = 0;

    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(bytes, at, size));
    for (size_t i = 0; i < size; i++) {
        found += bytes[i] == MARK;
        zeros += !bytes[i];
    }
    free(bytes);
    if (found + zeros != size)
        printf("  %zu bytes hold something else\n", size - found - zeros);
    return found;
}

int main(void)
{
    static const size_t sizes[] = {1 << 10, 200 << 10, 1 << 20, (1 << 20) + 512, 3 << 19, 2 << 20, 3 << 20, 4 << 20, 64 << 20};

    start_driver();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int beside = 0; beside < 2; beside++) {
                size_t size = sizes[i];
                CUdeviceptr first = kinds[kind].make(size), second = kinds[kind].make(size);
                CHECK(cuMemsetD8Async(first, MARK, size, stream));
                CHECK(cuMemsetD8Async(second, MARK, size, stream));
                CHECK(cuStreamSynchronize(stream));
                kinds[kind].end(first);
                if (!beside)
                    kinds[kind].end(second);
                CUdeviceptr again = kinds[kind].make(size);
                size_t found = marked(again, size);
                printf("%-24s %9zu bytes%s: %s, %zu %% as it was\n", kinds[kind].name, size, beside ? ", one lives beside" : "",
                    again == first ? "the same address" : again == second ? "the other's address" : "another address", found * 100 / size);
                kinds[kind].end(again);
                if (beside)
                    kinds[kind].end(second);
                CHECK(cuStreamSynchronize(stream));
            }
    return 0;
}
