// Copies into variables in managed memory, with and without having asked for their length
#include "check.h"

int main(void)
{
    CUlibrary library;
    CUdeviceptr factor, rounds;
    size_t bytes;
    unsigned numbers[4] = {1, 2, 3, 4};
    char path[1024];

    start_driver();
    snprintf(path, sizeof path, "%s/managed.ptx", getenv("KERNELS"));
    CHECK(cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetManaged(&factor, NULL, library, "factor"));
    CHECK(cuLibraryGetManaged(&rounds, &bytes, library, "rounds"));
    REQUIRE(bytes == sizeof numbers);
    CHECK(cuMemcpyHtoD(factor, numbers, sizeof *numbers));
    CHECK(cuMemcpyHtoD(rounds, numbers, sizeof numbers));
    CHECK(cuLibraryUnload(library));
    return 0;
}
