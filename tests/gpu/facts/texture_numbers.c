// Which numbers the driver gives to texture objects: whether they are the same in every run, and what becomes of freed ones
#include <cuda.h>
#include <stdio.h>

enum { N = 24 };

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUarray array;
    CUtexObject made[N];
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = 1, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUDA_TEXTURE_DESC sampling = {.filterMode = CU_TR_FILTER_MODE_POINT};
    int i, round;

    cuInit(0);
    cuDeviceGet(&device, 0);
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    cuArrayCreate(&array, &shape);
    resource.res.array.hArray = array;
    for (round = 0; round < 3; round++) {
        for (i = 0; i < N; i++)
            cuTexObjectCreate(&made[i], &resource, &sampling, NULL);
        printf("round %d:", round);
        for (i = 0; i < N; i++)
            printf(" %llx", made[i]);
        puts("");
        // Every third goes, in the next round all.
        for (i = 0; i < N; i++)
            if (round || i % 3 == 0)
                cuTexObjectDestroy(made[i]);
    }
    return 0;
}
