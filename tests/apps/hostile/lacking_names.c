// Asks the driver for names that it lacks
#include "check.h"
#include <dlfcn.h>

static void ask(void *driver, const char *name)
{
    void *function;

    dlerror();
    function = dlsym(driver, name);
    printf("%s: %s, %s\n", name, function ? "found" : "not found", dlerror());
}

int main(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);

    REQUIRE(driver);
    ask(driver, "cuNoSuchFunction");
    ask(driver, "cuVDPAUGetDevice"); // NVIDIA's has it, the simulated one has not
    ask(driver, "noSuchFunction");
    return 0;
}
