// Ranges of NVTX round launches and copies: three steps, a range round all of them, and one in which nothing happens. With an
// argument a stream comes and goes between two steps
#include "check.h"
#include <nvtx3/nvToolsExt.h>

enum { N = 1000, STEPS = 3 };

int main(int count, char **arguments_given)
{
    float c[N];
    unsigned n = N;
    nvtxDomainHandle_t domain = nvtxDomainCreateA("other");
    nvtxEventAttributes_t whole = {0};
    nvtxRangeId_t range;

    whole.version = NVTX_VERSION;
    whole.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    whole.messageType = NVTX_MESSAGE_TYPE_ASCII;
    whole.message.ascii = "whole";
    range = nvtxDomainRangeStartEx(domain, &whole);
    (void)arguments_given;
    start_driver();
    CUmodule module = load_module("vector_add");
    CUfunction function = find_kernel(module, "vector_add");
    CUdeviceptr da = allocate(sizeof c), db = allocate(sizeof c), dc = allocate(sizeof c);
    void *arguments[] = {&da, &db, &dc, &n};

    CHECK(cuMemsetD32(da, 0x3f800000, N));
    CHECK(cuMemsetD32(db, 0x40000000, N));
    for (int step = 0; step < STEPS; step++) {
        nvtxRangePushA("step");
        nvtxRangePushA("launch");
        launch(function, (N + 255) / 256, 256, arguments);
        nvtxRangePop();
        CHECK(cuMemcpyDtoH(c, dc, sizeof c));
        nvtxRangePop();
        nvtxRangePushA("nothing");
        nvtxRangePop();
        if (count > 1) {
            CUstream stream;

            CHECK(cuStreamCreate(&stream, 0));
            CHECK(cuStreamDestroy(stream));
        }
    }
    for (unsigned i = 0; i < N; i++)
        REQUIRE(c[i] == 3);
    nvtxDomainRangeEnd(domain, range);
    printf("%g\n", c[0]);
    return 0;
}
