// Writes when the device did each kernel, copy and fill, as CUPTI's activity records tell it: an oracle that owes nothing to
// cutrace. A preload library: CUPTI_TIMES names the file that it adds to, one "kind nanoseconds name" a line. Launchers and
// other processes on the way (timeout, env, a shell) carry it along; only who has a device work writes anything.
#include <cupti.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *out;
static unsigned long records;

static void lost(const char *what) {
    fprintf(stderr, "cupti_times: %s: times are missing\n", what);
}

static void must(CUptiResult result, const char *what) {
    const char *why = "?";
    if (result == CUPTI_SUCCESS) return;
    cuptiGetResultString(result, &why);
    fprintf(stderr, "cupti_times: %s: %s\n", what, why);
}

static void write_one(CUpti_Activity *one) {
    if (one->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || one->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
        CUpti_ActivityKernel10 *kernel = (CUpti_ActivityKernel10 *)one;
        fprintf(out, "kernel %llu %s\n", (unsigned long long)(kernel->end - kernel->start), kernel->name);
    } else if (one->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        CUpti_ActivityMemcpy6 *copy = (CUpti_ActivityMemcpy6 *)one;
        fprintf(out, "copy %llu %d %llu\n", (unsigned long long)(copy->end - copy->start), copy->copyKind,
                (unsigned long long)copy->bytes);
    } else if (one->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        CUpti_ActivityMemset4 *fill = (CUpti_ActivityMemset4 *)one;
        fprintf(out, "fill %llu %llu\n", (unsigned long long)(fill->end - fill->start), (unsigned long long)fill->bytes);
    }
}

static void CUPTIAPI complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    size_t dropped = 0;
    (void)size;
    if (!out && valid && !(out = fopen(getenv("CUPTI_TIMES"), "a"))) perror(getenv("CUPTI_TIMES"));
    for (CUpti_Activity *one = NULL; out && cuptiActivityGetNextRecord(buffer, valid, &one) == CUPTI_SUCCESS; records++)
        write_one(one);
    if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS && dropped) lost("CUPTI dropped records");
    free(buffer);
}

static void finish(void) {
    must(cuptiActivityFlushAll(1), "cuptiActivityFlushAll");
    if (out && fflush(out)) lost("the file cannot be written");
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver && !records) lost("the driver is here and there was no record");
}

static void CUPTIAPI request(uint8_t **buffer, size_t *size, size_t *most) {
    static int asked;
    // What is registered now runs before the driver's own end.
    if (!asked++) atexit(finish);
    *size = 8 << 20;
    *buffer = aligned_alloc(8, *size);
    *most = 0;
}

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("CUPTI_TIMES");
    if (!path || !*path) return;
    must(cuptiActivityRegisterCallbacks(request, complete), "cuptiActivityRegisterCallbacks");
    must(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "kernels");
    must(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY), "copies");
    must(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET), "fills");
    atexit(finish);
}
