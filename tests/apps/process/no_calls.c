// Loads the driver, looks a function up, and calls nothing
#include "check.h"
#include <dlfcn.h>

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 100)
        CHECK(cuInit(0)); // so that the program is linked with the driver
    REQUIRE(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuDeviceGetCount"));
    printf("nothing\n");
    return 0;
}
