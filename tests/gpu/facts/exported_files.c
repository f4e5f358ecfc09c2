// What tells an exported descriptor from another: the file behind it, marks on it, and the bytes of IPC handles
// cc exported_files.c -lcuda
#define _GNU_SOURCE
#include <cuda.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call) do { CUresult r = (call); if (r) { printf("%s: %d\n", #call, r); exit(1); } } while (0)

static void tell(const char *what, int file)
{
    char link[64], target[256] = "";
    struct stat about;

    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (readlink(link, target, sizeof target - 1) < 0)
        perror("readlink");
    fstat(file, &about);
    printf("%s: %s, device %lx, inode %lu, kind %o", what, target, (long)about.st_dev, (long)about.st_ino, about.st_mode & S_IFMT);
    printf(", owner %d, signal %d\n", fcntl(file, F_GETOWN), fcntl(file, F_GETSIG));
}

static void mark(int file, int signal)
{
    int owned = fcntl(file, F_SETOWN, getpid()), marked = fcntl(file, F_SETSIG, signal);

    printf("marked: owner %d, signal %d\n", owned, marked);
}

static void pass(int socket, int file)
{
    char byte = 0, room[CMSG_SPACE(sizeof file)];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof file)};
    memcpy(CMSG_DATA(header), &file, sizeof file);
    if (sendmsg(socket, &message, 0) != 1)
        perror("sendmsg");
}

static int take(int socket)
{
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int file = -1;

    if (recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message))
        memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    return file;
}

static CUdevice start(void)
{
    CUdevice device;
    CUcontext context;

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    return device;
}

static void child(int socket)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle imported;
    CUdeviceptr range;
    int file = take(socket), word = 0;

    tell("received by a child", file);
    start();
    CHECK(cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    tell("imported by the child", file);
    CHECK(cuMemAddressReserve(&range, 4 << 20, 0, 0, 0));
    printf("half of it mapped: %d\n", cuMemMap(range, 2 << 20, 0, imported, 0));
    printf("the other half: %d\n", cuMemMap(range + (2 << 20), 2 << 20, 2 << 20, imported, 0));
    CHECK(cuMemUnmap(range, 2 << 20));
    CHECK(cuMemMap(range, 4 << 20, 0, imported, 0));
    CHECK(cuMemSetAccess(range, 4 << 20, &access, 1));
    CHECK(cuMemcpyDtoH(&word, range + 100, 4));
    printf("what the parent wrote: %d\n", word);
    fflush(stdout);
    _exit(0);
}

int main(void)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemPoolProps pooled = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                             .location = properties.location};
    CUmemGenericAllocationHandle made, other, retained;
    CUdeviceptr range, small[3];
    CUipcMemHandle handles[4];
    CUmemoryPool pool;
    int files[4] = {-1, -1, -1, -1}, ends[2], i;

    setvbuf(stdout, NULL, _IONBF, 0);
    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends);
    if (!fork())
        child(ends[1]);
    start();
    CHECK(cuMemCreate(&made, 4 << 20, &properties, 0));
    CHECK(cuMemCreate(&other, 4 << 20, &properties, 0));
    CHECK(cuMemExportToShareableHandle(&files[0], made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CHECK(cuMemExportToShareableHandle(&files[1], made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CHECK(cuMemExportToShareableHandle(&files[2], other, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    tell("memory", files[0]);
    tell("the same, again", files[1]);
    tell("other memory", files[2]);
    mark(files[0], 41);
    tell("the first, marked", files[0]);
    tell("the second", files[1]);
    CHECK(cuMemPoolCreate(&pool, &pooled));
    CHECK(cuMemPoolExportToShareableHandle(&files[3], pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    tell("a pool", files[3]);
    CHECK(cuMemAddressReserve(&range, 4 << 20, 0, 0, 0));
    CHECK(cuMemMap(range, 4 << 20, 0, made, 0));
    CHECK(cuMemSetAccess(range, 4 << 20, &access, 1));
    CHECK(cuMemRelease(made));
    CHECK(cuMemsetD32(range, 77, 1 << 20));
    CHECK(cuMemRetainAllocationHandle(&retained, (void *)range));
    printf("retained by its mapping and exported: %d\n", cuMemExportToShareableHandle(&i, retained, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    pass(ends[0], files[0]);
    wait(NULL);
    for (i = 0; i < 3; i++) {
        CHECK(cuMemAlloc(&small[i], 1000));
        CHECK(cuIpcGetMemHandle(&handles[i], small[i]));
    }
    CHECK(cuIpcGetMemHandle(&handles[3], small[0]));
    printf("IPC handles of one allocation: %s; of neighbours: %s\n", memcmp(&handles[0], &handles[3], 64) ? "differ" : "alike",
           memcmp(&handles[0], &handles[1], 64) ? "differ" : "alike");
    CHECK(cuMemFree(small[2]));
    CHECK(cuMemAlloc(&small[2], 1000));
    CHECK(cuIpcGetMemHandle(&handles[3], small[2]));
    printf("of what was allocated again at %s address: %s\n", "that", memcmp(&handles[2], &handles[3], 64) ? "differ" : "alike");
    printf("within an allocation: %d\n", cuIpcGetMemHandle(&handles[3], small[0] + 100));
    return 0;
}
