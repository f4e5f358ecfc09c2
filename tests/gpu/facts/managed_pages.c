// Can managed memory be followed without touching it? What /proc/self/pagemap says of its pages as CPU and GPU take turns
#define _GNU_SOURCE
#include "../../apps/check.h"
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ull
enum { PAGES = 4096 };

static const char *ptx = ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry bump(.param .u64 at,.param .u32 n){.reg .u64 %r<4>;.reg .u32 %i<6>;.reg .pred %p;\n"
    "ld.param.u64 %r1,[at];ld.param.u32 %i1,[n];mov.u32 %i2,%ctaid.x;mov.u32 %i3,%ntid.x;mov.u32 %i4,%tid.x;\n"
    "mad.lo.s32 %i2,%i2,%i3,%i4;setp.ge.u32 %p,%i2,%i1;@%p bra E;mul.wide.u32 %r2,%i2,4096;add.u64 %r1,%r1,%r2;\n"
    "ld.global.u32 %i5,[%r1];add.u32 %i5,%i5,1;st.global.u32 [%r1],%i5;\nE:ret;}\n";
static int pagemap;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

struct region { uint64_t start, end, categories; };
struct scan { uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, inverted, mask, anyof, returned; };

static void show(const char *when, char *memory)
{
    static uint64_t entries[PAGES];
    static struct region regions[PAGES];
    double start = now();
    ssize_t got = pread(pagemap, entries, sizeof entries, (uint64_t)memory / PAGE * 8);
    double read_us = now() - start;
    int present = 0, soft = 0, files = 0;
    for (int i = 0; i < PAGES; i++) {
        present += entries[i] >> 63 & 1;
        files += entries[i] >> 61 & 1;
        soft += entries[i] >> 55 & 1;
    }
    struct scan scan = {.size = sizeof scan, .start = (uint64_t)memory, .end = (uint64_t)memory + PAGES * PAGE,
        .vec = (uint64_t)regions, .vec_len = PAGES, .mask = 1 << 3, .returned = 1 << 3};
    start = now();
    long count = ioctl(pagemap, _IOWR('f', 16, struct scan), &scan);
    int error = errno;
    long pages = 0;
    for (long i = 0; i < count; i++)
        pages += (regions[i].end - regions[i].start) / PAGE;
    printf("%-44s pread %5zd: %4d present (%d file, %d soft-dirty) %4.0f us; scan %ld (errno %d): %ld pages, %4.0f us\n", when, got,
        present, files, soft, read_us, count, count < 0 ? error : 0, pages, now() - start);
}

static void peek(const char *what, char *at)
{
    uint32_t word = 0;
    struct iovec local = {&word, 4}, remote = {at, 4};
    double start = now();
    ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    printf("    process_vm_readv of %-24s %zd (errno %d) word %u, %.0f us\n", what, got, got < 0 ? errno : 0, word, now() - start);
}

int main(void)
{
    CUmodule module;
    CUdeviceptr managed;
    unsigned count = PAGES;
    int value;

    start_driver();
    CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0));
    printf("concurrent managed access %d, ", value);
    CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0));
    printf("pageable memory access %d\n", value);
    CHECK(cuModuleLoadData(&module, ptx));
    CUfunction kernel = find_kernel(module, "bump");
    pagemap = open("/proc/self/pagemap", O_RDONLY);
    CHECK(cuMemAllocManaged(&managed, PAGES * PAGE, CU_MEM_ATTACH_GLOBAL));
    char *memory = (char *)managed, command[200];
    void *arguments[] = {&managed, &count};
    snprintf(command, sizeof command, "grep -A23 -i ^%lx- /proc/%d/smaps | grep -E -- '-|VmFlags'", (long)managed, getpid());
    fflush(stdout);
    if (system(command)) {}
    show("allocated", memory);
    memory[5 * PAGE] = 1;
    memory[100 * PAGE] = 1;
    show("two pages written by the CPU", memory);
    show("again", memory);
    memset(memory, 0, PAGES * PAGE);
    show("all written", memory);
    launch(kernel, PAGES / 256, 256, arguments);
    show("launched, not awaited", memory);
    CHECK(cuCtxSynchronize());
    show("a kernel has written all", memory);
    volatile char *v = memory;
    (void)v[7 * PAGE];
    show("one page read by the CPU", memory);
    v[2000 * PAGE] = 3;
    show("another written by the CPU", memory);
    peek("a page that is here", memory + 7 * PAGE);
    peek("a page on the device", memory + 3000 * PAGE);
    show("after those", memory);
    launch(kernel, PAGES / 256, 256, arguments);
    CHECK(cuCtxSynchronize());
    show("a kernel once more", memory);
    CUmemLocation host = {CU_MEM_LOCATION_TYPE_HOST, 0};
    CHECK(cuMemPrefetchAsync_v2(managed, PAGES * PAGE, host, 0, NULL));
    CHECK(cuCtxSynchronize());
    show("prefetched to the host", memory);
    CHECK(cuMemAdvise_v2(managed, PAGES * PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, host));
    launch(kernel, PAGES / 256, 256, arguments);
    CHECK(cuCtxSynchronize());
    show("read mostly, written by a kernel", memory);
    printf("%d %d\n", memory[7 * PAGE], memory[2000 * PAGE]);
    return 0;
}
