// Copies what a file holds to the device: from a mapping, private or shared, also one that was written to or that is
// pinned, or as read into memory. Says the sum of what the device gives back.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER = 1000, PIECE = 256 << 10 };

int main(int count, char **arguments)
{
    REQUIRE(count == 3);
    const char *how = arguments[2];
    int shared = !strcmp(how, "shared") || !strcmp(how, "writable") || !strcmp(how, "registered");
    int writable = strcmp(how, "shared") && strcmp(how, "registered");
    int file = open(arguments[1], strcmp(how, "writable") ? O_RDONLY : O_RDWR);
    struct stat about;
    unsigned char *bytes, *back;
    unsigned long sum = 0;
    size_t size, i;

    REQUIRE(file >= 0 && !fstat(file, &about));
    size = about.st_size;
    if (!strcmp(how, "read")) {
        bytes = malloc(size);
        REQUIRE(bytes && read(file, bytes, size) == (ssize_t)size);
    } else {
        bytes = mmap(NULL, size, PROT_READ | (writable ? PROT_WRITE : 0), shared ? MAP_SHARED : MAP_PRIVATE, file, 0);
        REQUIRE(bytes != MAP_FAILED);
    }
    close(file);
    // Of its own since: the second piece.
    if (!strcmp(how, "written"))
        bytes[HEADER + PIECE + 8000] ^= 0xff;
    start_driver();
    size -= HEADER;
    CUdeviceptr memory = allocate(size);
    if (!strcmp(how, "registered"))
        CHECK(cuMemHostRegister(bytes, HEADER + size, CU_MEMHOSTREGISTER_READ_ONLY));
    CHECK(cuMemcpyHtoD(memory, bytes + HEADER, size));
    back = malloc(size);
    CHECK(cuMemcpyDtoH(back, memory, size));
    REQUIRE(!memcmp(back, bytes + HEADER, size));
    for (i = 0; i < size; i++)
        sum = sum * 31 + back[i];
    printf("%016lx\n", sum);
    if (!strcmp(how, "registered"))
        CHECK(cuMemHostUnregister(bytes));
    return 0;
}
