// A graph whose kernel was found through a library and follows an address inside a structure: to memory that was freed before the
// launch ("freed"), or far beyond good memory by its index alone ("index"); the program dies of it
#include "check.h"

static const char text[] = ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry follow(.param .align 8 .b8 job[112], .param .u32 index) {\n"
    "    .reg .b32 %r<2>;\n    .reg .b64 %rd<4>;\n"
    "    ld.param.u64 %rd1, [job+96];\n    ld.param.u32 %r1, [index];\n"
    "    mul.wide.u32 %rd2, %r1, 65536;\n    add.s64 %rd3, %rd1, %rd2;\n    st.global.u32 [%rd3], %r1;\n    ret;\n}\n";

struct job {
    unsigned sizes[24];
    CUdeviceptr memory, nothing;
};

int main(int count, char **options)
{
    unsigned index = 0, i;
    CUlibrary library;
    CUkernel kernel;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec instance;
    struct job job = {{0}, 0, 0};
    CUdeviceptr other;

    REQUIRE(count == 2);
    start_driver();
    CHECK(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&kernel, library, "follow"));
    CHECK(cuMemAlloc(&other, 1000));
    CHECK(cuMemAlloc(&job.memory, 64 << 20));
    // Two small integers side by side look like an address.
    for (i = 0; i < 24; i++)
        job.sizes[i] = 1000 + i;
    if (strcmp(options[1], "index") == 0)
        index = 3000000000u;
    CUDA_KERNEL_NODE_PARAMS params = {.kern = kernel, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
        .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .kernelParams = (void *[]){&job, &index}};
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddKernelNode(&node, graph, 0, 0, &params));
    CHECK(cuGraphInstantiate(&instance, graph, 0));
    if (strcmp(options[1], "freed") == 0)
        CHECK(cuMemFree(job.memory));
    CHECK(cuGraphLaunch(instance, 0));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    abort();
}
