// Physical memory that goes to another process as descriptors through a socket: their numbers are others there, and those of
// later memory are theirs again
#include "descriptors.h"
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 300, TURNS = 3, PIECES = 2 };

#define KIND CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .requestedHandleTypes = KIND,
                                         .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static size_t granule;

static void map(CUdeviceptr at, CUmemGenericAllocationHandle memory)
{
    CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    CHECK(cuMemMap(at, granule, 0, memory, 0));
    CHECK(cuMemSetAccess(at, granule, &access, 1));
    CHECK(cuMemRelease(memory));
}

static CUdeviceptr reserve(void)
{
    CUdeviceptr range;

    CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(cuMemAddressReserve(&range, PIECES * granule, 0, 0, 0));
    return range;
}

static int child(int socket)
{
    CUmemGenericAllocationHandle imported;
    int numbers[N], n = N, turn, i, piece, file;
    char byte = 0;

    start_driver();
    CUfunction twice = find_kernel(load_module("faults"), "twice");
    CUdeviceptr range = reserve();
    for (turn = 0; turn < TURNS; turn++) {
        for (piece = 0; piece < PIECES; piece++) {
            file = take(socket);
            CHECK(cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)file, KIND));
            REQUIRE(!close(file));
            map(range + piece * granule, imported);
        }
        // Part of a piece: it stays mapped.
        REQUIRE(cuMemUnmap(range, granule / 2));
        for (piece = 0; piece < PIECES; piece++) {
            CUdeviceptr memory = range + piece * granule;
            CHECK(cuMemcpyDtoH(numbers, memory, sizeof numbers));
            // The last that was exported has come first.
            for (i = 0; i < N; i++)
                REQUIRE(numbers[i] == i + 10 * turn + (PIECES - 1 - piece));
            launch(twice, 3, 128, (void *[]){&memory, &n});
        }
        CHECK(cuCtxSynchronize());
        CHECK(cuMemUnmap(range, PIECES * granule));
        REQUIRE(write(socket, &byte, 1) == 1);
    }
    CHECK(cuMemAddressFree(range, PIECES * granule));
    return 0;
}

int main(void)
{
    CUmemGenericAllocationHandle made;
    int numbers[N], ends[2], files[PIECES], turn, i, piece, status, sum = 0;
    char byte;

    REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
    pid_t process = fork();
    if (!process) {
        // The numbers of its descriptors are others.
        REQUIRE(dup(0) >= 0);
        return child(ends[1]);
    }
    start_driver();
    CUdeviceptr range = reserve();
    for (turn = 0; turn < TURNS; turn++) {
        for (piece = 0; piece < PIECES; piece++) {
            CHECK(cuMemCreate(&made, granule, &properties, 0));
            CHECK(cuMemExportToShareableHandle(&files[piece], made, KIND, 0));
            map(range + piece * granule, made);
            for (i = 0; i < N; i++)
                numbers[i] = i + 10 * turn + piece;
            CHECK(cuMemcpyHtoD(range + piece * granule, numbers, sizeof numbers));
        }
        for (piece = PIECES - 1; piece >= 0; piece--) {
            pass(ends[0], files[piece]);
            REQUIRE(!close(files[piece]));
        }
        REQUIRE(read(ends[0], &byte, 1) == 1);
        for (piece = 0; piece < PIECES; piece++) {
            CHECK(cuMemcpyDtoH(numbers, range + piece * granule, sizeof numbers));
            for (i = 0; i < N; i++)
                REQUIRE(numbers[i] == 2 * (i + 10 * turn + piece));
            sum += numbers[N - 1];
        }
        CHECK(cuMemUnmap(range, PIECES * granule));
    }
    REQUIRE(waitpid(process, &status, 0) == process && status == 0);
    CHECK(cuMemAddressFree(range, PIECES * granule));
    printf("%d\n", sum);
    return 0;
}
