// A program with a profiler of its own: subscribes to CUPTI and takes activity records, from the start ("first"), while another
// thread makes the first driver call ("beside") or when it has launched something already ("later"), by functions that it is linked
// with (LINKED) or looks up in $CUPTI
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

typedef uint32_t Result;
typedef void (*Callback)(void *user, uint32_t domain, uint32_t id, const void *data);
typedef void (*Request)(uint8_t **buffer, size_t *size, size_t *most);
typedef void (*Complete)(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

Result cuptiSubscribe(void **subscriber, Callback callback, void *user);
Result cuptiUnsubscribe(void *subscriber);
Result cuptiEnableCallback(uint32_t enable, void *subscriber, uint32_t domain, uint32_t id);
Result cuptiGetCallbackName(uint32_t domain, uint32_t id, const char **name);
Result cuptiActivityRegisterCallbacks(Request request, Complete complete);
Result cuptiActivityEnable(uint32_t kind);
Result cuptiActivityDisable(uint32_t kind);
Result cuptiActivityFlushAll(uint32_t flag);
Result cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record);

#ifdef LINKED
#define CUPTI(name) name
#else
static void *looked_up(const char *name)
{
    void *library = dlopen(getenv("CUPTI"), RTLD_NOW), *found = library ? dlsym(library, name) : NULL;
    REQUIRE(found);
    return found;
}
#define CUPTI(name) ((__typeof__(&name))looked_up(#name))
#endif

enum { DRIVER_API = 1, CONCURRENT_KERNEL = 10 };

static int called, kernels, others;

static void called_back(void *user, uint32_t domain, uint32_t id, const void *data)
{
    (void)user, (void)domain, (void)id, (void)data;
    called++;
}

static void request(uint8_t **buffer, size_t *size, size_t *most)
{
    *size = 1 << 20;
    *buffer = aligned_alloc(8, *size);
    *most = 0;
}

static void complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    void *record = NULL;

    (void)context, (void)stream, (void)size;
    while (!CUPTI(cuptiActivityGetNextRecord)(buffer, valid, &record))
        *(uint32_t *)record == CONCURRENT_KERNEL ? kernels++ : others++;
    free(buffer);
}

static void *begin(void)
{
    void *subscriber;
    const char *name;
    uint32_t id = 1;

    REQUIRE(!CUPTI(cuptiSubscribe)(&subscriber, called_back, NULL));
    while (!CUPTI(cuptiGetCallbackName)(DRIVER_API, id, &name) && strcmp(name, "cuLaunchKernel"))
        id++;
    REQUIRE(!CUPTI(cuptiEnableCallback)(1, subscriber, DRIVER_API, id));
    REQUIRE(!CUPTI(cuptiActivityRegisterCallbacks)(request, complete));
    REQUIRE(!CUPTI(cuptiActivityEnable)(CONCURRENT_KERNEL));
    return subscriber;
}

static void *call_first(void *nothing)
{
    CHECK(cuInit(0));
    return nothing;
}

int main(int argc, char **argv)
{
    int is_beside = argc == 2 && !strcmp(argv[1], "beside"), i;
    int is_first = is_beside || (argc == 2 && !strcmp(argv[1], "first"));
    pthread_t thread;
    unsigned n = 256;

    if (is_beside) {
        REQUIRE(!pthread_create(&thread, NULL, call_first, NULL));
        usleep(50000);
    }
    void *subscriber = is_first ? begin() : NULL;
    if (is_beside)
        REQUIRE(!pthread_join(thread, NULL));
    start_driver();
    CUmodule module = load_module("vector_add");
    CUfunction function = find_kernel(module, "vector_add");
    CUdeviceptr memory = allocate(4 * n);
    void *arguments[] = {&memory, &memory, &memory, &n};

    CHECK(cuMemsetD32(memory, 0, n));
    for (i = 0; i < 3; i++)
        launch(function, 1, n, arguments);
    CHECK(cuCtxSynchronize());
    if (!is_first)
        subscriber = begin();
    for (i = 0; i < 5; i++)
        launch(function, 1, n, arguments);
    CHECK(cuCtxSynchronize());
    REQUIRE(!CUPTI(cuptiActivityFlushAll)(0));
    REQUIRE(!CUPTI(cuptiActivityDisable)(CONCURRENT_KERNEL));
    REQUIRE(!CUPTI(cuptiUnsubscribe)(subscriber));
    printf("%d callbacks, %d kernels, %d others\n", called, kernels, others);
    return 0;
}
