// Each way to wait once, behind a launch of each kind; and questions about the device.
#include "check.h"

enum { N = 32, BYTES = N * 4 };

int main(void)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE};
    CUlaunchConfig config = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = N, .blockDimY = 1, .blockDimZ = 1};
    CUdevice_attribute asked[] = {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_CLOCK_RATE,
        CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID,
        CU_DEVICE_ATTRIBUTE_INTEGRATED};
    CUstream stream, other, unused;
    CUdeviceptr memory;
    CUfunction add;
    CUevent event;
    int numbers[N] = {0}, n = N, answer;
    void *arguments[] = {&memory, &n};
    unsigned i;

    start_driver();
    for (i = 0; i < sizeof asked / sizeof *asked; i++)
        CHECK(cuDeviceGetAttribute(&answer, asked[i], 0));
    add = find_kernel(load_module("faults"), "add_two");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&unused, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    memory = allocate(BYTES);
    CHECK(cuMemcpyHtoD(memory, numbers, BYTES));
    config.hStream = stream;
    config.attrs = &attribute;

    CHECK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, stream, arguments, NULL));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuLaunchCooperativeKernel(add, 1, 1, 1, N, 1, 1, 0, stream, arguments));
    CHECK(cuEventRecord(event, stream));
    CHECK(cuEventSynchronize(event));
    CHECK(cuLaunchKernelEx(&config, add, arguments, NULL));
    config.numAttrs = 1;
    CHECK(cuLaunchKernelEx(&config, add, arguments, NULL));
    attribute.value.cooperative = 1;
    CHECK(cuLaunchKernelEx(&config, add, arguments, NULL));
    CHECK(cuEventRecord(event, stream));
    CHECK(cuStreamWaitEvent(other, event, 0));
    CHECK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, other, arguments, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamSynchronize(unused));
    CHECK(cuMemcpyDtoH(numbers, memory, BYTES));
    printf("%d\n", numbers[N - 1]);
    return 0;
}
