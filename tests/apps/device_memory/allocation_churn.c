// Memory of a few sizes is got and freed over and over; then pieces of sizes that were never freed before. With an argument
// pinned memory is got and freed besides, which is all with another one
#include "check.h"

enum { ROUNDS = 2000, SIZES = 7, FRESH = 5, FEW = 21 };

int main(int count, char **arguments)
{
    CUdeviceptr memory, kept[FRESH];
    void *pinned;

    (void)arguments;
    start_driver();
    for (int i = 0; count > 1 && i < FEW; i++) {
        CHECK(cuMemAllocHost(&pinned, 4096));
        CHECK(cuMemFreeHost(pinned));
    }
    if (count > 2)
        return 0;
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
