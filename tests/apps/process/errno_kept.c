// Looks after every call whether errno is what it was: a driver leaves it alone when all is well
#include "check.h"
#include <errno.h>

enum { SIZE = 8 << 10 };

int main(void)
{
    unsigned char block[SIZE];
    CUcontext current;
    CUdeviceptr memory;
    int i, changed = 0;

    start_driver();
    memory = allocate(SIZE);
    for (i = 0; i < 20000; i++) {
        errno = 77;
        CHECK(cuCtxGetCurrent(&current));
        changed += errno != 77;
    }
    for (i = 0; i < 200; i++) {
        memset(block, i, SIZE);
        errno = 77;
        CHECK(cuMemcpyHtoD(memory, block, SIZE));
        changed += errno != 77;
    }
    errno = 77;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(memory, NULL, SIZE));
    changed += errno != 77;
    printf("changed %d times\n", changed);
    return 0;
}
