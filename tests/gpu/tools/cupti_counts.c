// Counts driver API calls by name with CUPTI's callbacks, as an oracle that owes nothing to cutrace.
// A preload library: CUPTI_COUNTS names the file it writes, one "name count" a line, when the process ends.
#include <cupti.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 4096 };
static atomic_ulong counts[MOST];

static void CUPTIAPI called(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData *data) {
    (void)user;
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API && data->callbackSite == CUPTI_API_ENTER && id < MOST)
        atomic_fetch_add_explicit(&counts[id], 1, memory_order_relaxed);
}

static void finish(void) {
    const char *path = getenv("CUPTI_COUNTS");
    unsigned long all = 0;
    for (unsigned id = 0; id < MOST; id++) all += atomic_load(&counts[id]);
    // Launchers and helper processes inherit this library; only who called the driver has something to say.
    FILE *out = path && all ? fopen(path, "w") : NULL;
    if (!out) return;
    for (unsigned id = 0; id < MOST; id++) {
        const char *name = NULL;
        unsigned long count = atomic_load(&counts[id]);
        if (count && cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, id, &name) == CUPTI_SUCCESS && name)
            fprintf(out, "%s %lu\n", name, count);
    }
    fclose(out);
}

__attribute__((constructor)) static void start(void) {
    CUpti_SubscriberHandle subscriber;
    if (cuptiSubscribe(&subscriber, (CUpti_CallbackFunc)called, NULL) != CUPTI_SUCCESS) {
        fprintf(stderr, "cupti_counts: no subscription\n");
        return;
    }
    cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
    atexit(finish);
}
