// The program's secrets in every place of a trace: payloads of all sizes, code, arguments, names, annotations
#include "check.h"
#include <nvtx3/nvToolsExt.h>
#include <sys/prctl.h>

#define HOME "/home/sally/code/kernel.cu"
#define PTX(comment)                                                                                                   \
    ".version 7.0\n.target sm_50\n.address_size 64\n// " comment " " HOME "\n"                                         \
    ".visible .entry keyed(.param .align 1 .b8 key[64], .param .u64 to)\n{\n    ret;\n}\n"

enum { MOST = 1 << 20, KEY = 64 };

static const size_t sizes[] = {1, 2, 3, 5, 6, 7, 8, 16, 100, 1000, 2047, 2048, 2049, 5000, MOST};
static const int count = sizeof sizes / sizeof *sizes;

static void plant(char *at, size_t size)
{
    for (size_t i = 0; i < size; i++)
        at[i] = "SECRET"[i % 6];
}

static void CUDA_CB called(void *data)
{
    (void)data;
}

static void copies(CUstream stream, CUdeviceptr device)
{
    char *pageable = malloc(MOST), *pinned;

    plant(pageable, MOST);
    CHECK(cuMemAllocHost((void **)&pinned, MOST));
    plant(pinned, MOST);
    for (int i = 0; i < count; i++) {
        CHECK(cuMemcpyHtoD(device, pageable, sizes[i]));
        CHECK(cuMemcpyHtoDAsync(device, pinned, sizes[i], stream));
        CHECK(cuMemcpyHtoDAsync(device, pageable, sizes[i], stream));
        CHECK(cuMemcpyDtoH(pageable, device, sizes[i]));
        CHECK(cuMemcpyDtoHAsync(pinned, device, sizes[i], stream));
        CHECK(cuStreamSynchronize(stream));
    }
    CUDA_MEMCPY2D rows = {
        .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = pageable, .srcPitch = 100, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = device, .dstPitch = 100, .WidthInBytes = 30, .Height = 10,
    };
    CHECK(cuMemcpy2D(&rows));
    CHECK(cuMemFreeHost(pinned));
    free(pageable);
}

static CUfunction code(void)
{
    static char longer[8 << 10], info[4096], errors[4096];
    CUjit_option names[] = {
        CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
        CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    };
    void *values[] = {info, (void *)sizeof info, errors, (void *)sizeof errors};
    const char *small = PTX("SECRETcomment"), *broken = "SECRETbroken " HOME "\n";
    FILE *file = fopen("SECRETfile.ptx", "w");
    CUfunction function;
    CUlinkState state;
    CUmodule module;

    REQUIRE(file && fputs(small, file) >= 0 && !fclose(file));
    CHECK(cuModuleLoad(&module, "SECRETfile.ptx"));
    strcpy(longer, small);
    memset(longer + strlen(longer), '\n', 4 << 10);
    strcat(longer, "// SECRETlong\n");
    CHECK(cuModuleLoadData(&module, longer));
    CHECK(cuLinkCreate(4, names, values, &state));
    cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)broken, strlen(broken) + 1, "SECRETname", 0, NULL, NULL);
    CHECK(cuLinkDestroy(state));
    EXPECT(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, broken, 4, names, values));
    CHECK(cuModuleLoadData(&module, small));
    CHECK(cuModuleGetFunction(&function, module, "keyed"));
    return function;
}

static void launches(CUfunction function, CUstream stream)
{
    struct {
        char key[KEY];
        CUdeviceptr to;
    } given;
    size_t size = sizeof given;
    void *extra[] = {
        CU_LAUNCH_PARAM_BUFFER_POINTER, &given, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END,
    };
    void *data, *params[] = {given.key, &given.to};
    char *written;

    plant(given.key, KEY);
    CHECK(cuMemAllocHost((void **)&written, 4096));
    given.to = (CUdeviceptr)written;
    // Written by the CPU without a call, and read by kernels.
    plant(written, 4096);
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    memset(written, 0, 4096);
    plant(written + 100, 300);
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
    memcpy(&data, "SECRETUD", sizeof data);
    CHECK(cuLaunchHostFunc(stream, called, data));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemFreeHost(written));
}

// Of its structure the driver looks at some fields alone.
static void structures(void)
{
    CUmemPoolProps about = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemoryPool pool;

    plant((char *)about.reserved, sizeof about.reserved);
    if (cuMemPoolCreate(&pool, &about) == CUDA_SUCCESS)
        CHECK(cuMemPoolDestroy(pool));
}

int main(int argc, char **argv)
{
    CUdeviceptr device;
    CUstream stream;
    char text[200];

    prctl(PR_SET_NAME, "SECRETthread");
    start_driver();
    snprintf(text, sizeof text, "SECRETnvtx of %s, %s", argc > 1 ? argv[1] + strlen("--token=") : "-", HOME);
    nvtxRangePushA(text);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&device, MOST));
    copies(stream, device);
    launches(code(), stream);
    structures();
    nvtxRangePop();
    puts("SECRETprinted");
    return 0;
}
