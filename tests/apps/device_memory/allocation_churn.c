// Memory of a few sizes is got and freed over and over; then pieces of sizes that were never freed before
#include "check.h"

enum { ROUNDS = 2000, SIZES = 7, FRESH = 5 };

int main(void)
{
    CUdeviceptr memory, kept[FRESH];

    start_driver();
    for (int i = 0; i < ROUNDS; i++) {
        memory = allocate(4096 + i % SIZES * 512);
        CHECK(cuMemFree(memory));
    }
    for (int i = 0; i < FRESH; i++)
        kept[i] = allocate(100000 + i);
    for (int i = 0; i < FRESH; i++)
        CHECK(cuMemFree(kept[i]));
    return 0;
}
