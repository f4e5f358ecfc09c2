// Two pieces of another process's memory, mapped side by side: while a kernel works on the first, the process whose they are
// writes the second
#include "descriptors.h"
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 300, TURNS = 3, PIECES = 2, LONG = 300000 };

#define KIND CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static const char *kernels =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry count(.param .u64 p_word, .param .u32 p_times)\n{\n"
    "    .reg .pred %p<2>;\n    .reg .b32 %r<4>;\n    .reg .b64 %rd<2>;\n"
    "    ld.param.u64 %rd1, [p_word];\n    ld.param.u32 %r1, [p_times];\n"
    "AGAIN:\n    ld.volatile.global.u32 %r2, [%rd1];\n    add.u32 %r2, %r2, 1;\n    st.volatile.global.u32 [%rd1], %r2;\n"
    "    sub.u32 %r1, %r1, 1;\n    setp.ne.u32 %p1, %r1, 0;\n    @%p1 bra AGAIN;\n    ret;\n}\n";

static CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .requestedHandleTypes = KIND,
                                         .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static size_t granule;

static CUdeviceptr reserve(void)
{
    CUdeviceptr range;

    CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(cuMemAddressReserve(&range, PIECES * granule, 0, 0, 0));
    return range;
}

static void map(CUdeviceptr at, CUmemGenericAllocationHandle memory)
{
    CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    CHECK(cuMemMap(at, granule, 0, memory, 0));
    CHECK(cuMemSetAccess(at, granule, &access, 1));
    CHECK(cuMemRelease(memory));
}

static int child(int socket)
{
    CUmemGenericAllocationHandle imported;
    int numbers[N], piece, turn, i, times = LONG;
    CUdeviceptr range;
    CUmodule module;
    char byte = 0;

    start_driver();
    CHECK(cuModuleLoadData(&module, kernels));
    range = reserve();
    for (piece = 0; piece < PIECES; piece++) {
        CHECK(cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)take(socket), KIND));
        map(range + piece * granule, imported);
    }
    for (turn = 0; turn < TURNS; turn++) {
        launch(find_kernel(module, "count"), 1, 1, (void *[]){&range, &times});
        REQUIRE(write(socket, &byte, 1) == 1 && read(socket, &byte, 1) == 1);
        CHECK(cuMemcpyDtoH(numbers, range + granule, sizeof numbers));
        for (i = 0; i < N; i++)
            REQUIRE(numbers[i] == i + turn);
    }
    CHECK(cuMemcpyDtoH(numbers, range, sizeof numbers));
    REQUIRE(numbers[0] == TURNS * LONG);
    return 0;
}

int main(void)
{
    CUmemGenericAllocationHandle made;
    int numbers[N], ends[2], piece, turn, i, file, status;
    CUdeviceptr range;
    char byte = 0;

    REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
    pid_t process = fork();
    if (!process)
        return child(ends[1]);
    start_driver();
    range = reserve();
    for (piece = 0; piece < PIECES; piece++) {
        CHECK(cuMemCreate(&made, granule, &properties, 0));
        CHECK(cuMemExportToShareableHandle(&file, made, KIND, 0));
        map(range + piece * granule, made);
        CHECK(cuMemsetD8(range + piece * granule, 0, granule));
        CHECK(cuCtxSynchronize());
        pass(ends[0], file);
        REQUIRE(!close(file));
    }
    for (turn = 0; turn < TURNS; turn++) {
        REQUIRE(read(ends[0], &byte, 1) == 1);
        for (i = 0; i < N; i++)
            numbers[i] = i + turn;
        CHECK(cuMemcpyHtoD(range + granule, numbers, sizeof numbers));
        REQUIRE(write(ends[0], &byte, 1) == 1);
    }
    REQUIRE(waitpid(process, &status, 0) == process && status == 0);
    puts("done");
    return 0;
}
