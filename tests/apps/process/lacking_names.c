// Asks the driver for names that it lacks; for those given as arguments also in the driver's own way
#include "check.h"
#include <dlfcn.h>

static void ask(void *driver, const char *name)
{
    void *function;

    dlerror();
    function = dlsym(driver, name);
    printf("%s: %s, %s\n", name, function ? "found" : "not found", dlerror());
}

static void ask_properly(void *driver, const char *name)
{
    CUresult (*find)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    CUdriverProcAddressQueryResult status = 77;
    void *function = &function;
    CUresult result;

    *(void **)&find = dlsym(driver, "cuGetProcAddress_v2");
    REQUIRE(find);
    result = find(name, &function, 13000, 0, &status);
    printf("%s: result %d, status %d, %s\n", name, result, status, function ? "found" : "not found");
}

int main(int count, char **names)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);

    REQUIRE(driver);
    ask(driver, "cuNoSuchFunction");
    ask(driver, "cuVDPAUGetDevice"); // NVIDIA's has it, the simulated one has not
    ask(driver, "noSuchFunction");
    while (--count > 0) {
        ask(driver, *++names);
        ask_properly(driver, *names);
    }
    return 0;
}
