// A module loaded and kernels found behind the driver's back: through a hidden table, as runtimes before CUDA 12 load their
// modules, and as cuFFT finds its kernels in modules that it loads openly. Only the simulated driver has this table.
#include "check.h"

enum { N = 32 };

struct table {
    size_t bytes;
    CUresult (*load)(CUmodule *, const void *);
    CUresult (*function)(CUfunction *, CUmodule, const char *);
};

struct wrapper {
    unsigned magic, version;
    const void *data;
    void *more;
};

// The wrapper lies in the program's data, as nvcc puts it
static struct wrapper wrapper = {0x466243B1, 1, NULL, NULL};

// A fatbin of one PTX text
static void *fatbin(const char *text)
{
    struct { unsigned magic; unsigned short version, header; unsigned long bytes; } head = {0xBA55ED50, 1, 16, 0};
    struct {
        unsigned short kind, version;
        unsigned header;
        unsigned long bytes;
        unsigned compressed, options;
        unsigned short minor, major;
        unsigned architecture, name, name_bytes;
        unsigned long flags, zero, plain;
    } entry = {1, 0x0101, 64, 0, 0, 0, 0, 8, 50, 0, 0, 0x11, 0, 0};
    size_t length = (strlen(text) + 8) / 8 * 8;
    char *all = calloc(1, sizeof head + sizeof entry + length);

    _Static_assert(sizeof head == 16 && sizeof entry == 64, "as in a fatbin");
    REQUIRE(all);
    entry.bytes = length;
    head.bytes = sizeof entry + length;
    memcpy(all, &head, sizeof head);
    memcpy(all + sizeof head, &entry, sizeof entry);
    memcpy(all + sizeof head + sizeof entry, text, strlen(text));
    return all;
}

int main(void)
{
    const struct table *table;
    CUuuid id;
    CUmodule hidden, open_one;
    CUfunction function, other;
    CUdeviceptr memory;
    int numbers[N], n = N, threads, i;

    memcpy(&id, "simulated, ours.", 16);
    start_driver();
    if (cuGetExportTable((const void **)&table, &id)) {
        puts("this driver has no such table");
        return 0;
    }
    memory = allocate(sizeof numbers);
    for (i = 0; i < N; i++)
        numbers[i] = i;
    CHECK(cuMemcpyHtoD(memory, numbers, sizeof numbers));

    wrapper.data = fatbin(read_kernels("faults"));
    CHECK(table->load(&hidden, &wrapper));
    launch(find_kernel(hidden, "add_two"), 1, N, (void *[]){&memory, &n});

    // Twice, so that the second module and its function may get the handles of the first
    for (i = 0; i < 2; i++) {
        open_one = load_module("faults");
        CHECK(table->function(&function, open_one, i ? "twice" : "add_two"));
        CHECK(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
        REQUIRE(threads >= N);
        // Set up and never launched
        CHECK(table->function(&other, open_one, i ? "add_two" : "twice"));
        CHECK(i ? cuFuncSetSharedSize(other, 0) : cuFuncSetCacheConfig(other, CU_FUNC_CACHE_PREFER_L1));
        launch(function, 1, N, (void *[]){&memory, &n});
        CHECK(cuModuleUnload(open_one));
    }
    CHECK(cuMemcpyDtoH(numbers, memory, sizeof numbers));
    printf("%d\n", numbers[N - 1]);
    REQUIRE(numbers[N - 1] == 2 * (N - 1 + 4));
    return 0;
}
