// Loads module images that lie in read-only mappings of files, each several times, one of them also from another file, and
// says what the recorder allocated meanwhile in pieces of an image's size
#include "check.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TIMES = 3, LARGE = 1 << 20, PADDING = 4 << 20 };

static size_t large;

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

// In front of the C library's, for the recorder, too
static void *counted(void *memory, size_t size, void *caller)
{
    Dl_info about;

    if (size >= LARGE && dladdr(caller, &about) && about.dli_fname && strstr(about.dli_fname, "libcutrace"))
        large += size;
    return memory;
}

void *malloc(size_t size)
{
    return counted(__libc_malloc(size), size, __builtin_return_address(0));
}

void *calloc(size_t count, size_t size)
{
    return counted(__libc_calloc(count, size), count * size, __builtin_return_address(0));
}

void *realloc(void *memory, size_t size)
{
    return counted(__libc_realloc(memory, size), size, __builtin_return_address(0));
}

// A file with a kernel that stores `stored`, and a comment as long as an image of some size
static const char *mapped(const char *path, int stored)
{
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    char *text = __libc_malloc(PADDING + 1000);
    int length = snprintf(text, 1000,
                          ".version 7.0\n.target sm_50\n.address_size 64\n"
                          ".visible .entry store(.param .u64 place) {\n"
                          "    .reg .b64 %%rd<2>;\n    ld.param.u64 %%rd1, [place];\n"
                          "    st.global.u32 [%%rd1], %d;\n    ret;\n}\n//",
                          stored);
    void *found;

    REQUIRE(file >= 0);
    memset(text + length, 'x', PADDING);
    text[length + PADDING] = 0;
    length += PADDING + 1;
    REQUIRE(write(file, text, length) == length);
    free(text);
    found = mmap(NULL, length, PROT_READ, MAP_PRIVATE, file, 0);
    REQUIRE(found != MAP_FAILED);
    close(file);
    return found;
}

int main(void)
{
    const char *images[] = {mapped("one", 7), mapped("other", 8), mapped("again", 7)};
    unsigned found, sum = 0;
    int i, time;

    start_driver();
    CUdeviceptr place = allocate(4);
    for (time = 0; time < TIMES; time++) {
        for (i = 0; i < 3; i++) {
            CUmodule module;

            CHECK(cuModuleLoadData(&module, images[i]));
            launch(find_kernel(module, "store"), 1, 1, (void *[]){&place});
            CHECK(cuMemcpyDtoH(&found, place, 4));
            CHECK(cuModuleUnload(module));
            sum += found;
        }
    }
    printf("%u, %zu bytes\n", sum, large);
    return 0;
}
