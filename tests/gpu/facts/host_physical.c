// Host memory of cuMemCreate: how it lies in the process, whether Linux tells what the CPU writes there, at which address it
// can be had, and what the driver says of it
#define _GNU_SOURCE
#include "../../apps/check.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, WRITTEN = 2, PROTECT = 1, CHECK_ASYNC = 2 };

struct region { uint64_t start, end, categories; };
struct scan {
    uint64_t size, flags, start, end, walk_end, regions, count, most, inverted, all_of, any_of, returned;
};

static int tracker, pagemap;

static void show_mapping(CUdeviceptr at)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[512];
    int here = 0;

    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;

        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            here = start <= at && at < end;
        if (here && (strchr(line, '-') == line + 12 || !strncmp(line, "VmFlags", 7) || !strncmp(line, "Rss", 3)))
            printf("    %s", line);
    }
    fclose(maps);
}

static void written(const char *when, char *memory, size_t bytes)
{
    static struct region regions[4096];
    struct scan scan = {sizeof scan, PROTECT | CHECK_ASYNC, (uintptr_t)memory, (uintptr_t)memory + bytes, 0, (uintptr_t)regions, 4096, 0, 0, WRITTEN, 0, WRITTEN};
    long count = ioctl(pagemap, _IOWR('f', 16, struct scan), &scan), pages = 0;

    for (long i = 0; i < count; i++)
        pages += (regions[i].end - regions[i].start) / PAGE;
    if (count < 0)
        printf("    %s: not told, errno %d\n", when, errno);
    else
        printf("    %s: %ld pages written\n", when, pages);
}

static void track(char *memory, size_t bytes)
{
    struct uffdio_register range = {.range = {(uintptr_t)memory, bytes}, .mode = UFFDIO_REGISTER_MODE_WP};
    CUdeviceptr device;

    if (ioctl(tracker, UFFDIO_REGISTER, &range)) {
        printf("    write protection refused, errno %d\n", errno);
        return;
    }
    written("first", memory, bytes);
    memory[5 * PAGE] = 9, memory[100 * PAGE] = 8;
    written("two writes of the CPU", memory, bytes);
    CHECK(cuMemAlloc(&device, bytes));
    CHECK(cuMemsetD8(device, 7, bytes));
    CHECK(cuMemcpy((CUdeviceptr)memory, device, bytes));
    CHECK(cuCtxSynchronize());
    written("a copy of the device", memory, bytes);
    printf("    the CPU sees %d\n", memory[3 * PAGE]);
    CHECK(cuMemFree(device));
    ioctl(tracker, UFFDIO_UNREGISTER, &range.range);
}

static void look_at(const char *what, CUmemLocation where, CUmemAllocationHandleType kind)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = kind, .location = where};
    CUmemAccessDesc access[] = {{where, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}, {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    CUmemGenericAllocationHandle memory;
    CUdeviceptr at, fixed;
    unsigned type = 0;
    void *host = NULL;
    size_t granule;
    CUresult result;

    printf("%s\n", what);
    result = cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    printf("    granularity %zu (result %d)\n", granule, result);
    result = cuMemCreate(&memory, granule, &properties, 0);
    if (result) {
        printf("    cuMemCreate: result %d\n", result);
        return;
    }
    CHECK(cuMemAddressReserve(&at, granule, 0, 0, 0));
    CHECK(cuMemMap(at, granule, 0, memory, 0));
    printf("  mapped\n");
    show_mapping(at);
    result = cuMemSetAccess(at, granule, access, 2);
    printf("  with access: result %d\n", result);
    show_mapping(at);
    printf("    of type %d", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) ? -1 : (int)type);
    printf(", host pointer %s\n", cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at) ? "refused" : host == (void *)at ? "the same" : "another");
    track((char *)at, granule);
    CHECK(cuMemUnmap(at, granule));
    CHECK(cuMemAddressFree(at, granule));
    fixed = at;
    result = cuMemAddressReserve(&at, granule, 0, fixed, 0);
    printf("  asked for again at the same address: result %d, %s\n", result, at == fixed ? "there" : "elsewhere");
    CHECK(cuMemAddressFree(at, granule));
    CHECK(cuMemRelease(memory));
}

int main(void)
{
    struct uffdio_api api = {.api = UFFD_API, .features = 1 << 13 | 1 << 15};
    CUmemLocation numa = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}, host = {CU_MEM_LOCATION_TYPE_HOST, 0};

    start_driver();
    tracker = syscall(SYS_userfaultfd, O_CLOEXEC | 1);
    printf("userfaultfd %d, api %d\n", tracker, ioctl(tracker, UFFDIO_API, &api));
    pagemap = open("/proc/self/pagemap", O_RDONLY);
    look_at("HOST_NUMA 0", numa, CU_MEM_HANDLE_TYPE_NONE);
    look_at("HOST_NUMA 0, exportable", numa, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    look_at("HOST", host, CU_MEM_HANDLE_TYPE_NONE);
    return 0;
}
