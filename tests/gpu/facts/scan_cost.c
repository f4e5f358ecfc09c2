// What it costs to ask Linux which pages of pinned memory the CPU has written (PAGEMAP_SCAN), and to protect them again
#include "../../apps/check.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 33, TIMES = 20000, PROTECT = 1, CHECK_ASYNC = 2, WRITTEN = 2 };

struct scan {
    uint64_t size, flags, start, end, walk_end, regions, count, most, inverted, all_of, any_of, returned;
};

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void scan(int pagemap, char *memory, int pages, uint64_t flags)
{
    uint64_t regions[3 * 16];
    struct scan scan = {sizeof scan, flags, (uintptr_t)memory, (uintptr_t)memory + pages * PAGE, 0, (uintptr_t)regions, 16, 0, 0, WRITTEN, 0, WRITTEN};

    REQUIRE(ioctl(pagemap, _IOWR('f', 16, struct scan), &scan) >= 0);
}

int main(void)
{
    struct uffdio_api api = {.api = UFFD_API, .features = 1 << 13 | 1 << 15};
    struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_WP};
    int faults = syscall(SYS_userfaultfd, O_CLOEXEC | 1), pagemap = open("/proc/self/pagemap", O_RDONLY);
    char *memory, *next;

    start_driver();
    CHECK(cuMemHostAlloc((void **)&memory, PAGES * PAGE, 0));
    CHECK(cuMemHostAlloc((void **)&next, PAGE, 0));
    printf("two pieces of pinned memory are %ld bytes apart\n", (long)(next - memory));
    memset(memory, 1, PAGES * PAGE);
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api)) {
        printf("this Linux does not track writes\n");
        return 0;
    }
    range.range.start = (uintptr_t)memory, range.range.len = PAGES * PAGE;
    REQUIRE(!ioctl(faults, UFFDIO_REGISTER, &range));
    scan(pagemap, memory, PAGES, PROTECT | CHECK_ASYNC);
    for (int pages = 1; pages <= PAGES; pages += PAGES - 1)
        for (int protects = 0; protects < 2; protects++)
            for (int writes = 0; writes < 2; writes++) {
                double took = 0;
                for (int i = 0; i < TIMES; i++) {
                    double began = now();
                    memory[0] += writes;
                    scan(pagemap, memory, pages, CHECK_ASYNC | (protects ? PROTECT : 0));
                    took += now() - began;
                    if (writes && !protects)
                        scan(pagemap, memory, pages, PROTECT | CHECK_ASYNC);
                }
                printf("%d pages, %s, %s: %.0f ns\n", pages, writes ? "one written" : "none written", protects ? "protected again" : "asked about",
                       took / TIMES);
            }
    return 0;
}
