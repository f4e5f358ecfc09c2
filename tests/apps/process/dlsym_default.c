// Finds the driver's functions in the global scope
#include "check.h"
#include <dlfcn.h>

int main(void)
{
    CUresult (*get_count)(int *);
    int count = -1;

    CHECK(cuInit(0)); // so that the program is linked with the driver
    get_count = dlsym(RTLD_DEFAULT, "cuDeviceGetCount");
    REQUIRE(get_count);
    CHECK(get_count(&count));
    REQUIRE(!dlsym(RTLD_DEFAULT, "cuNoSuchFunction"));
    printf("%d\n", count);
    return 0;
}
