// NVTX as it should not be used; argv[1] threads, argv[2] ranges deep
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nvtx3/nvToolsExt.h>

static CUcontext context;
static nvtxDomainHandle_t domain;
static nvtxStringHandle_t text;
static int deep;

static void *work(void *unused)
{
    nvtxEventAttributes_t all = {0};
    int i;

    all.version = NVTX_VERSION;
    all.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    all.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    all.message.registered = text;
    // A thread's first record is an annotation.
    for (i = 0; i < deep; i++) {
        nvtxDomainRangePushEx(domain, &all);
        nvtxRangePushA("inner");
    }
    CHECK(cuCtxSetCurrent(context));
    for (i = 0; i < deep; i++) {
        nvtxDomainRangePop(domain);
        nvtxRangePop();
    }
    return unused;
}

static void odd(uint16_t version, uint16_t size, int32_t payload, int32_t message, const void *value)
{
    // More behind the known attributes, as a later NVTX may have.
    struct {
        nvtxEventAttributes_t known;
        uint64_t more[8];
    } all;

    memset(&all, 0xff, sizeof all);
    all.known.version = version;
    all.known.size = size;
    all.known.category = 3;
    all.known.colorType = NVTX_COLOR_UNKNOWN;
    all.known.payloadType = payload;
    all.known.payload.ullValue = 42;
    all.known.messageType = message;
    all.known.message.ascii = value;
    nvtxMarkEx(&all.known);
}

int main(int argc, char **argv)
{
    static char endless[70001];
    pthread_t *all;
    int threads, status, i;
    pid_t child;

    REQUIRE(argc == 3);
    threads = atoi(argv[1]);
    deep = atoi(argv[2]);
    context = start_driver();
    domain = nvtxDomainCreateA("threads");
    text = nvtxDomainRegisterStringW(domain, L"registered \u00fc");

    odd(0, 48, 1, NVTX_MESSAGE_TYPE_ASCII, (void *)1);
    odd(3, 0, 1, NVTX_MESSAGE_TYPE_ASCII, (void *)1);
    // The message lies beyond the size.
    odd(3, 40, 1, NVTX_MESSAGE_TYPE_ASCII, (void *)1);
    odd(3, 8, 1, NVTX_MESSAGE_TYPE_ASCII, (void *)1);
    odd(4, 112, 1, NVTX_MESSAGE_TYPE_ASCII, "later");
    odd(3, 48, 99, NVTX_MESSAGE_TYPE_ASCII, "unknown payload");
    odd(3, 48, 0, 99, (void *)1);
    odd(3, 48, 0, NVTX_MESSAGE_TYPE_REGISTERED, (void *)0x123456);
    odd(3, 48, 0, NVTX_MESSAGE_TYPE_REGISTERED, (void *)-1);
    odd(3, 48, 0, NVTX_MESSAGE_TYPE_ASCII, NULL);
    nvtxMarkEx(NULL);
    nvtxMarkA(NULL);
    nvtxMarkW(NULL);
    nvtxMarkA("");
    nvtxMarkA("not UTF-8: \xe4\xff");
    nvtxMarkW((wchar_t[]){'w', 0xd800, 0x7fffffff, '!', 0});
    memset(endless, 'e', sizeof endless - 1);
    nvtxMarkA(endless);
    nvtxRangePop();
    nvtxRangeEnd(0);
    nvtxRangeEnd(999999);
    nvtxDomainRangePop((nvtxDomainHandle_t)0x987654);
    // A text is no domain.
    nvtxDomainRangePop((nvtxDomainHandle_t)text);
    nvtxDomainDestroy(NULL);
    for (i = 0; i < 1000; i++) {
        char name[16];

        snprintf(name, sizeof name, "text %d", i);
        nvtxDomainRegisterStringA(domain, name);
        nvtxDomainCreateA("threads");
    }

    all = calloc(threads, sizeof *all);
    for (i = 0; i < threads; i++)
        REQUIRE(!pthread_create(&all[i], NULL, work, NULL));
    for (i = 0; i < threads; i++)
        REQUIRE(!pthread_join(all[i], NULL));

    fflush(stdout);
    child = fork();
    if (!child) {
        nvtxEventAttributes_t again = {0};
        CUdevice device;
        int result;

        // In a recording of its own, if it makes a call.
        again.version = NVTX_VERSION;
        again.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        again.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
        again.message.registered = text;
        nvtxDomainMarkEx(domain, &again);
        result = cuDeviceGet(&device, 0);
        nvtxDomainMarkEx(domain, &again);
        _exit(result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_INITIALIZED);
    }
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    printf("done\n");
    return 0;
}
