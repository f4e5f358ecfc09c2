// Both cuGetProcAddress, both kinds of null stream; every function found is called
#include "check.h"
#include <dlfcn.h>

typedef CUresult (*Old)(const char *, void **, int, cuuint64_t);

static void *found(const char *name, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult status;
    void *function = NULL;

    CHECK(cuGetProcAddress_v2(name, &function, version, flags, &status));
    REQUIRE(status == CU_GET_PROC_ADDRESS_SUCCESS && function);
    return function;
}

int main(void)
{
    Old old = (Old)dlsym(RTLD_DEFAULT, "cuGetProcAddress");
    CUresult (*init)(unsigned) = NULL;
    CUresult (*get_count)(int *);
    CUresult (*query)(CUstream);
    CUresult (*current)(CUcontext *);
    CUdriverProcAddressQueryResult status;
    CUcontext context;
    void *nothing = &status;
    int count = -1;

    REQUIRE(old);
    CHECK(old("cuInit", (void **)&init, 11030, CU_GET_PROC_ADDRESS_DEFAULT));
    CHECK(init(0));
    get_count = found("cuDeviceGetCount", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
    CHECK(get_count(&count));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    query = found("cuStreamQuery", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    CHECK(query(NULL));
    query = found("cuStreamQuery", 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
    CHECK(query(NULL));
    // A function that hands out functions is handed out itself.
    Old again = (Old)found("cuGetProcAddress", 11030, CU_GET_PROC_ADDRESS_DEFAULT);
    CHECK(again("cuCtxGetCurrent", (void **)&current, 12000, CU_GET_PROC_ADDRESS_DEFAULT));
    CHECK(current(&context));
    CHECK(cuGetProcAddress_v2("cuNoSuchFunction", &nothing, 13000, 0, &status));
    REQUIRE(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND && !nothing);
    printf("%d\n", count);
    return 0;
}
