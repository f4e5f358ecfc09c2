// Every kind of annotation by NVTX, well formed, on one thread; argv[1]: without a driver call
#include "check.h"
#include <locale.h>
#include <unistd.h>
#include <nvtx3/nvToolsExtCuda.h>

static nvtxEventAttributes_t attributes(const char *message)
{
    nvtxEventAttributes_t all = {0};

    all.version = NVTX_VERSION;
    all.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    all.messageType = NVTX_MESSAGE_TYPE_ASCII;
    all.message.ascii = message;
    return all;
}

static void payload(const char *message, int32_t type, uint64_t bits)
{
    nvtxEventAttributes_t all = attributes(message);

    all.payloadType = type;
    all.payload.ullValue = bits;
    nvtxMarkEx(&all);
}

int main(int argc, char **argv)
{
    nvtxDomainHandle_t domain;
    nvtxStringHandle_t text;
    nvtxEventAttributes_t all;
    nvtxRangeId_t first, second, third, fourth;
    CUcontext context;
    CUstream stream;
    CUevent event;
    int level;

    (void)argv;
    // Before the first driver call.
    level = nvtxRangePushA("whole");
    printf("level %d\n", level);
    nvtxNameOsThreadA(getpid(), "main thread");
    nvtxNameCategoryA(7, "early category");
    domain = nvtxDomainCreateA("library");
    text = nvtxDomainRegisterStringA(domain, "registered");
    if (argc > 1) {
        nvtxMarkA("no call");
        nvtxRangePop();
        printf("done\n");
        return 0;
    }

    context = start_driver();
    CHECK(cuStreamCreate(&stream, 0));
    CHECK(cuEventCreate(&event, 0));
    nvtxNameCuDeviceA(0, "the device");
    nvtxNameCuContextW(context, L"the context");
    nvtxNameCuStreamA(stream, "the stream");
    nvtxNameCuEventA(event, "the event");
    nvtxNameOsThreadW(4711, L"wide thread");

    all = attributes("coloured");
    all.category = 7;
    all.colorType = NVTX_COLOR_ARGB;
    all.color = 0xff8040c0;
    nvtxRangePushEx(&all);
    CHECK(cuCtxSynchronize());
    nvtxRangePushW(L"breit \u00e4\u20ac\U0001F600");
    nvtxMarkW(L"wide mark");
    nvtxRangePop();
    nvtxRangePop();

    payload("u64", NVTX_PAYLOAD_TYPE_UNSIGNED_INT64, 0xffffffffffffffff);
    payload("i64", NVTX_PAYLOAD_TYPE_INT64, (uint64_t)-5);
    payload("double", NVTX_PAYLOAD_TYPE_DOUBLE, 0x3ff8000000000000);
    payload("u32", NVTX_PAYLOAD_TYPE_UNSIGNED_INT32, 0xdeadbeefffffffff);
    payload("i32", NVTX_PAYLOAD_TYPE_INT32, 0xdeadbeeffffffffe);
    payload("float", NVTX_PAYLOAD_TYPE_FLOAT, 0xdeadbeef3fc00000);

    // Ranges that overlap.
    first = nvtxRangeStartA("first");
    second = nvtxRangeStartW(L"second");
    all = attributes("third");
    third = nvtxRangeStartEx(&all);
    fourth = nvtxDomainRangeStartEx(domain, &all);
    // All 0 without a tool.
    REQUIRE(!first || (first != second && second != third && third != fourth));
    nvtxRangeEnd(first);
    nvtxRangeEnd(third);
    nvtxDomainRangeEnd(domain, fourth);
    nvtxRangeEnd(second);

    nvtxDomainNameCategoryA(domain, 7, "of the library");
    all = attributes(NULL);
    all.category = 7;
    all.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    all.message.registered = text;
    REQUIRE(nvtxDomainRangePushEx(domain, &all) == level);
    all.messageType = NVTX_MESSAGE_TYPE_UNICODE;
    all.message.unicode = L"in a domain";
    nvtxDomainMarkEx(domain, &all);
    nvtxDomainRangePop(domain);
    nvtxDomainDestroy(domain);
    // Without a push: that of the default domain is another's.
    nvtxDomainRangePop(domain);
    nvtxRangePop();
    nvtxRangePop();
    nvtxMarkA("line\nbreak");
    CHECK(cuStreamDestroy(stream));
    printf("done\n");
    return 0;
}
