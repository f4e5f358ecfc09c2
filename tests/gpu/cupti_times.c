// Writes when the device did each kernel, copy and fill, as CUPTI's activity records tell it: an oracle that owes nothing to
// cutrace. A preload library: CUPTI_TIMES names the file it writes, one "kind nanoseconds name" a line.
#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *out;

static void CUPTIAPI request(uint8_t **buffer, size_t *size, size_t *most) {
    *size = 8 << 20;
    *buffer = aligned_alloc(8, *size);
    *most = 0;
}

static void CUPTIAPI complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    (void)context, (void)stream, (void)size;
    for (CUpti_Activity *one = NULL; out && cuptiActivityGetNextRecord(buffer, valid, &one) == CUPTI_SUCCESS;) {
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
    free(buffer);
}

static void finish(void) {
    cuptiActivityFlushAll(1);
    if (out) fclose(out);
    out = NULL;
}

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("CUPTI_TIMES");
    if (!path) return;
    // Processes that the program starts are another's affair.
    unsetenv("CUPTI_TIMES");
    unsetenv("LD_PRELOAD");
    out = fopen(path, "w");
    cuptiActivityRegisterCallbacks(request, complete);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
    atexit(finish);
}
