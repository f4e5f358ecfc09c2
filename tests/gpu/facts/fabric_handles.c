// Whether memory can be exported by a fabric handle, without NVIDIA's IMEX service
// cc fabric_handles.c -lcuda
#include <cuda.h>
#include <stdio.h>

static void tell(const char *what, CUresult result)
{
    const char *name = "?";

    cuGetErrorName(result, &name);
    printf("%-40s %s\n", what, name);
}

int main(void)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC};
    CUmemGenericAllocationHandle made, imported;
    CUmemFabricHandle handle;
    int is_supported = 0, devices = 0;
    CUcontext context;
    CUresult result;
    CUdevice device;

    tell("cuInit", cuInit(0));
    tell("cuDeviceGetCount", cuDeviceGetCount(&devices));
    tell("cuDeviceGet", cuDeviceGet(&device, 0));
    tell("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device));
    tell("cuCtxSetCurrent", cuCtxSetCurrent(context));
    tell("HANDLE_TYPE_FABRIC_SUPPORTED", cuDeviceGetAttribute(&is_supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, device));
    printf("  %d, of %d devices\n", is_supported, devices);
    tell("cuMemCreate", result = cuMemCreate(&made, 2 << 20, &properties, 0));
    if (result)
        return 0;
    tell("cuMemExportToShareableHandle", result = cuMemExportToShareableHandle(&handle, made, CU_MEM_HANDLE_TYPE_FABRIC, 0));
    if (!result)
        tell("cuMemImportFromShareableHandle", cuMemImportFromShareableHandle(&imported, &handle, CU_MEM_HANDLE_TYPE_FABRIC));
    return 0;
}
