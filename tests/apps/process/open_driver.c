// Opens the driver by the name in argv[1]; asks for its functions with dlsym
#include "check.h"
#include <dlfcn.h>

int main(int argc, char **argv)
{
    int count = -1, version = 0;
    void *driver;

    REQUIRE(argc == 2);
    driver = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!driver) {
        printf("no driver: %s\n", dlerror());
        return 3;
    }
    CUresult (*init)(unsigned) = dlsym(driver, "cuInit");
    CUresult (*get_count)(int *) = dlsym(driver, "cuDeviceGetCount");
    CUresult (*get_version)(int *) = dlsym(driver, "cuDriverGetVersion");

    CHECK(init(0));
    CHECK(get_count(&count));
    CHECK(get_version(&version));
    printf("%d devices, version %d\n", count, version);
    return dlclose(driver);
}
