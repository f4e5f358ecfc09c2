// Which addresses kernels see that no call hands out, what the driver says of them, and in which mapping of the process they lie.
// nvcc -rdc=true -arch=sm_90 driver_addresses.cu; run it twice: what differs from process to process?
#include <cuda.h>
#include <cstdint>
#include <cstdio>
#include <dlfcn.h>

struct Shape {
    __device__ virtual float area() const { return 1; }
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    float side = 2;
    __device__ float area() const override { return side * side; }
};

__device__ float twice(float x) { return x + x; }
__device__ float thrice(float x) { return 3 * x; }
__device__ __noinline__ float far_away(float x) { return x * x + 7; }
typedef float (*Function)(float);
__device__ Function table[3] = {twice, thrice, far_away};
__device__ float variable[64];
__constant__ float constant[64];
__device__ Shape *kept;

__global__ void look(uint64_t *out, int pick) {
    __shared__ float shared[32];
    float local[8];
    shared[threadIdx.x] = local[pick] = pick;
    out[0] = (uint64_t)table[0];
    out[1] = (uint64_t)table[1];
    out[2] = (uint64_t)table[2];
    kept = new Square;
    out[3] = *(uint64_t *)kept;
    out[4] = (uint64_t)kept;
    out[5] = (uint64_t)malloc(100);
    out[6] = (uint64_t)variable;
    out[7] = (uint64_t)constant;
    out[8] = (uint64_t)shared;
    out[9] = (uint64_t)local;
    out[10] = (uint64_t)"text" + pick;
    out[11] = (uint64_t)look;
}

static void mapping(uint64_t address) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= address && address < end) {
            printf("  %s", line);
            fclose(maps);
            return;
        }
    }
    printf("  in no mapping\n");
    fclose(maps);
}

int main(void) {
    const char *names[] = {"function 1", "function 2", "function 3", "virtual table", "new", "malloc", "variable", "constant", "shared", "local", "text", "kernel"};
    uint64_t *out, found[12] = {0};
    cudaMalloc(&out, sizeof found);
    look<<<1, 1>>>(out, 0);
    if (cudaMemcpy(found, out, sizeof found, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    auto attribute = (CUresult (*)(void *, CUpointer_attribute, CUdeviceptr))dlsym(driver, "cuPointerGetAttribute");
    auto range = (CUresult (*)(CUdeviceptr *, size_t *, CUdeviceptr))dlsym(driver, "cuMemGetAddressRange_v2");
    for (int n = 0; n < 12; n++) {
        unsigned type = 0;
        CUdeviceptr start = 0;
        size_t len = 0;
        CUresult known = attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, found[n]);
        CUresult ranged = range(&start, &len, found[n]);
        printf("%-14s %#14lx  type %d (%u), range %d (%#llx, %zu)", names[n], found[n], known, type, ranged, start, len);
        mapping(found[n]);
    }
    void *there;
    cudaGetSymbolAddress(&there, variable);
    printf("variable, as the runtime says %p; memory %p\n", there, (void *)out);
    return 0;
}
