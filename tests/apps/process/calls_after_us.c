// Linked with a library (libcalls_at_unload.c) whose destructor calls the driver
#include <cuda.h>
#include <stdio.h>

CUcontext begin(void);

int main(void)
{
    printf("%d\n", begin() != NULL);
    return 0;
}
