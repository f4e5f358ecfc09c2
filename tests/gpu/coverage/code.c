// Code: a fatbin put together here, managed variables of a library, functions as they were configured before CUDA 4
#include "tell.h"

static const char text[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                           ".visible .global .align 4 .u32 plain = 7;\n"
                           ".visible .global .attribute(.managed) .align 4 .u32 shared_by_all = 11;\n"
                           ".visible .entry nothing(.param .u64 p, .param .u32 n) { ret; }\n";

// As trace/src/parameters/fatbin.rs draws it, with a header as long as `fatbinary` of CUDA 13.0 makes for text: no options
struct fatbin {
    unsigned magic;
    unsigned short version, header;
    unsigned long long body;
    unsigned short kind, entry_version;
    unsigned entry_header;
    unsigned long long stored;
    unsigned compressed, options;
    unsigned short minor, major;
    unsigned sm, name_at, name_len;
    unsigned long long flags, zero, plain, options_at, no_options;
    char code[(sizeof text + 7) / 8 * 8];
};

static struct fatbin fatbin = {.magic = 0xba55ed50, .version = 1, .header = 16, .body = 80 + sizeof fatbin.code, .kind = 1,
    .entry_version = 0x0101, .entry_header = 80, .stored = sizeof fatbin.code, .options = 64, .minor = 0, .major = 7, .sm = 75,
    .flags = 0x11, .options_at = 72};

static void modules(void)
{
    CUmodule module;
    CUfunction function;
    CUtexref texture;
    CUsurfref surface;
    int blocks, threads;

    memcpy(fatbin.code, text, sizeof text);
    if (TELL(cuModuleLoadFatBinary(&module, &fatbin)) != CUDA_SUCCESS)
        return;
    CHECK(cuModuleGetFunction(&function, module, "nothing"));
    TELL(cuModuleGetTexRef(&texture, module, "plain"));
    TELL(cuModuleGetSurfRef(&surface, module, "plain"));
    TELL(cuFuncSetSharedMemConfig(function, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE));
    TELL(cuFuncSetBlockShape(function, 32, 1, 1));
    TELL(cuFuncSetSharedSize(function, 0));
    TELL(cuOccupancyMaxPotentialBlockSize(&blocks, &threads, function, NULL, 0, 0));
    TELL(cuOccupancyMaxPotentialBlockSizeWithFlags(&blocks, &threads, function, NULL, 0, 0, CU_OCCUPANCY_DEFAULT));
    CHECK(cuModuleUnload(module));
}

static void managed(void)
{
    CUlibrary library;
    CUdeviceptr at;
    size_t bytes;
    unsigned seen;

    if (TELL(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0)) != CUDA_SUCCESS)
        return;
    TELL(cuLibraryGetManaged(&at, &bytes, library, "plain"));
    if (TELL(cuLibraryGetManaged(&at, &bytes, library, "shared_by_all")) == CUDA_SUCCESS) {
        TELL(cuMemcpyDtoH_v2(&seen, at, sizeof seen));
        printf("%zu bytes, %u\n", bytes, seen);
    }
    CHECK(cuLibraryUnload(library));
}

int main(void)
{
    start_driver();
    modules();
    managed();
    fill_and_see(6);
    return 0;
}
