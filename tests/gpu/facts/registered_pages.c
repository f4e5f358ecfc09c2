// Which kinds of host memory can be write-protected (userfaultfd WP_ASYNC) and scanned while the driver has them pinned
#define _GNU_SOURCE
#include "../../apps/check.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif
#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define PAGE 4096ull
#define SIZE (16ull << 20)
static int tracker, pagemap;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

struct region { uint64_t start, end, categories; };
struct scan { uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, inverted, mask, anyof, returned; };

// Pages written since the last scan, which are protected again
static long written(char *memory, size_t bytes)
{
    static struct region regions[65536];
    struct scan scan = {.size = sizeof scan, .flags = 3, .start = (uint64_t)memory, .end = (uint64_t)memory + bytes,
        .vec = (uint64_t)regions, .vec_len = 65536, .mask = 2, .returned = 2};
    double start = now();
    long count = ioctl(pagemap, _IOWR('f', 16, struct scan), &scan), pages = 0;
    int error = errno;
    double took = now() - start;
    for (long i = 0; i < count; i++)
        pages += (regions[i].end - regions[i].start) / PAGE;
    if (count < 0)
        printf(" [errno %d]", error);
    else
        printf(" [%ld pages, %.0f us]", pages, took);
    return count < 0 ? -1 : pages;
}

static void track(const char *what, char *memory)
{
    struct uffdio_register registered = {.range = {(uint64_t)memory, SIZE}, .mode = UFFDIO_REGISTER_MODE_WP};
    struct uffdio_writeprotect protect = {.range = {(uint64_t)memory, SIZE}, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
    CUdeviceptr device;
    CUstream stream;

    printf("%-40s", what);
    memset(memory, 1, SIZE);
    double start = now();
    if (ioctl(tracker, UFFDIO_REGISTER, &registered) || ioctl(tracker, UFFDIO_WRITEPROTECT, &protect)) {
        printf(" refused, errno %d\n", errno);
        return;
    }
    printf(" armed %.0f us;", now() - start);
    written(memory, SIZE);
    start = now();
    memory[5 * PAGE] = 9;
    memory[100 * PAGE + 1] = 8;
    printf(" write %.1f us", (now() - start) / 2);
    written(memory, SIZE);
    CHECK(cuMemAlloc(&device, SIZE));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemcpyDtoHAsync(memory, device, SIZE, stream));
    CHECK(cuStreamSynchronize(stream));
    printf(" DMA");
    written(memory, SIZE);
    start = now();
    memset(memory, 2, SIZE);
    printf(" all %.0f us", now() - start);
    written(memory, SIZE);
    memset(memory, 2, SIZE);
    printf(" again");
    written(memory, SIZE);
    printf("\n");
}

int main(void)
{
    void *pinned;

    start_driver();
    tracker = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED};
    printf("userfaultfd %d, api %d\n", tracker, ioctl(tracker, UFFDIO_API, &api));
    pagemap = open("/proc/self/pagemap", O_RDONLY);
    unsigned flags[] = {0, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_WRITECOMBINED};
    const char *names[] = {"cuMemHostAlloc 0", "cuMemHostAlloc mapped", "cuMemHostAlloc write-combined"};
    for (int i = 0; i < 3; i++) {
        CHECK(cuMemHostAlloc(&pinned, SIZE, flags[i]));
        track(names[i], pinned);
        CHECK(cuMemFreeHost(pinned));
    }
    char *memory = mmap(0, SIZE + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory = (char *)(((uint64_t)memory + (2 << 20) - 1) & ~(uint64_t)((2 << 20) - 1));
    madvise(memory, SIZE, MADV_HUGEPAGE);
    memset(memory, 1, SIZE);
    CHECK(cuMemHostRegister(memory, SIZE, CU_MEMHOSTREGISTER_DEVICEMAP));
    track("registered, huge pages", memory);
    CHECK(cuMemHostUnregister(memory));
    int shared = memfd_create("shared", 0);
    REQUIRE(!ftruncate(shared, SIZE));
    memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
    memset(memory, 1, SIZE);
    CHECK(cuMemHostRegister(memory, SIZE, 0));
    track("registered, shared memory", memory);
    FILE *file = tmpfile();
    REQUIRE(file && !ftruncate(fileno(file), SIZE));
    memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    memset(memory, 1, SIZE);
    CUresult result = cuMemHostRegister(memory, SIZE, 0);
    if (result)
        printf("registered, a mapped file: the driver says %d\n", result);
    else
        track("registered, a mapped file", memory);
    return 0;
}
