// Which numbers the driver gives to texture objects: whether they are the same in every run, and what becomes of freed ones
#include <cuda.h>
#include <stdio.h>

enum { N = 24, MOST = 512, TRIES = 1024 };

static CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
static CUDA_TEXTURE_DESC sampling = {.filterMode = CU_TR_FILTER_MODE_POINT};
static CUtexObject made[MOST];

static void begin(CUdevice device)
{
    CUcontext context;
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = 1, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};

    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    cuArrayCreate(&resource.res.array.hArray, &shape);
}

static void lowest(void)
{
    int i, round;

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
}

// Of so many objects one goes, after which others are made until its number comes again.
static void freed(int size)
{
    CUtexObject other = 0, first = 0;
    int i, tries;

    for (i = 0; i < size; i++)
        cuTexObjectCreate(&made[i], &resource, &sampling, NULL);
    for (i = 0; i < 3; i++) {
        CUtexObject gone = made[10 + i];

        cuTexObjectDestroy(gone);
        cuCtxSynchronize();
        for (tries = 1; tries <= TRIES; tries++) {
            cuTexObjectCreate(&other, &resource, &sampling, NULL);
            first = tries == 1 ? other : first;
            if (other == gone)
                break;
        }
        printf("%d objects, %llu freed: first %llu, then to %llu, ", size, gone, first, other);
        printf(tries <= TRIES ? "there at try %d\n" : "not there after %d\n", tries - (tries > TRIES));
    }
}

int main(void)
{
    static const int sizes[] = {48, 60, 62, 64, 65, 128, 450};
    CUdevice device;
    unsigned i;

    cuInit(0);
    cuDeviceGet(&device, 0);
    begin(device);
    lowest();
    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        cuDevicePrimaryCtxReset(device);
        cuDevicePrimaryCtxRelease(device);
        begin(device);
        freed(sizes[i]);
    }
    return 0;
}
