// Workers that share two streams and a ring of staging slots, which have pages in common: a callback empties a slot, hands it on and queues
// the task's next stage
#include "check.h"
#include <pthread.h>

enum { WORKERS = 8, SLOTS = 5, TASKS = 60, STAGES = 3, WORDS = 1500 };

typedef struct {
    int id, stage, words, slot;
    unsigned data[WORDS];
} Task;

static CUcontext context;
static CUfunction take;
static CUstream streams[2];
static unsigned *ring;
static CUdeviceptr device_ring;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static Task tasks[TASKS], *queue[TASKS * STAGES];
static int queued, taken, slots_free[SLOTS], count_free, unfinished = TASKS;

static unsigned *slot_in(int slot) { return ring + 2 * slot * WORDS; }
static unsigned *slot_out(int slot) { return ring + (2 * slot + 1) * WORDS; }

static void CUDA_CB finished(void *data)
{
    Task *task = data;

    for (int i = 0; i < task->words; i++)
        task->data[i] = slot_out(task->slot)[i] * 3 + i;
    memset(slot_out(task->slot), 0xee, task->words * 4);
    pthread_mutex_lock(&lock);
    slots_free[count_free++] = task->slot;
    if (++task->stage < STAGES)
        queue[queued++] = task;
    else
        unfinished--;
    pthread_mutex_unlock(&lock);
    pthread_cond_broadcast(&changed);
}

static void put(Task *task)
{
    CUstream stream = streams[(task->id + task->stage) % 2];
    CUdeviceptr in = device_ring + 8 * task->slot * WORDS, out = in + 4 * WORDS;
    int bytes = task->words * 4, cut = task->id % 3 == 0 ? bytes / 8 * 4 : bytes;

    memcpy(slot_in(task->slot), task->data, bytes);
    CHECK(cuMemcpyHtoDAsync(in, slot_in(task->slot), cut, stream));
    if (cut < bytes)
        CHECK(cuMemcpyHtoDAsync(in + cut, (char *)slot_in(task->slot) + cut, bytes - cut, stream));
    CHECK(cuLaunchKernel(take, 12, 1, 1, 128, 1, 1, 0, stream, (void *[]){&out, &in, &task->words}, NULL));
    CHECK(cuMemcpyDtoHAsync(slot_out(task->slot), out, bytes, stream));
    CHECK(cuLaunchHostFunc(stream, finished, task));
}

static void *work(void *unused)
{
    Task *task;

    (void)unused;
    CHECK(cuCtxSetCurrent(context));
    for (;;) {
        pthread_mutex_lock(&lock);
        while (unfinished && (taken == queued || !count_free))
            pthread_cond_wait(&changed, &lock);
        if (!unfinished) {
            pthread_mutex_unlock(&lock);
            return NULL;
        }
        task = queue[taken++];
        task->slot = slots_free[--count_free];
        pthread_mutex_unlock(&lock);
        put(task);
    }
}

int main(void)
{
    pthread_t workers[WORKERS];
    unsigned sum = 0;

    context = start_driver();
    take = find_kernel(load_module("memory"), "take");
    for (int i = 0; i < 2; i++)
        CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&ring, SLOTS * 2 * WORDS * 4, CU_MEMHOSTALLOC_PORTABLE));
    device_ring = allocate(SLOTS * 2 * WORDS * 4);
    for (int i = 0; i < SLOTS; i++)
        slots_free[count_free++] = i;
    for (int id = 0; id < TASKS; id++) {
        tasks[id].id = id;
        tasks[id].words = WORDS - id * 7;
        for (int i = 0; i < tasks[id].words; i++)
            tasks[id].data[i] = id * 1009 + i * 31;
        queue[queued++] = &tasks[id];
    }
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, work, NULL);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    for (int i = 0; i < 2; i++)
        CHECK(cuStreamSynchronize(streams[i]));
    for (int id = 0; id < TASKS; id++)
        for (int i = 0; i < tasks[id].words; i++) {
            unsigned expected = id * 1009 + i * 31;
            for (int stage = 0; stage < STAGES; stage++)
                expected = expected * 3 + i;
            REQUIRE(tasks[id].data[i] == expected);
            sum = sum * 31 + tasks[id].data[i];
        }
    printf("%u\n", sum);
    return 0;
}
