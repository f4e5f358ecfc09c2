// Threads ask over and over whether something is done, and count how often: one event (e), one each (t), one thing after the other (c);
// one that is done (d), or until the process is killed, by this thread (k) or another (b)
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <unistd.h>

static CUstream held, other;
static CUdeviceptr flag;
static CUcontext context;
static unsigned long events, streams;

static void ask(CUevent event, CUresult wanted, int times)
{
    for (int i = 0; i < times; i++)
        EXPECT(wanted, cuEventQuery(event));
    __atomic_fetch_add(&events, times, __ATOMIC_RELAXED);
}

static void ask_stream(CUresult wanted, int times)
{
    for (int i = 0; i < times; i++)
        EXPECT(wanted, cuStreamQuery(held));
    streams += times;
}

static CUevent recorded(void)
{
    CUevent event;

    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(event, held));
    return event;
}

static void *thread(void *times)
{
    CHECK(cuCtxSetCurrent(context));
    ask(recorded(), CUDA_ERROR_NOT_READY, *(int *)times);
    return NULL;
}

static void *kill_later(void *microseconds)
{
    usleep(*(int *)microseconds);
    raise(SIGKILL);
    return NULL;
}

// In a file that is there when the process is gone, how often it has asked so far
static void ask_on(CUevent event)
{
    int file = open("asked", O_RDWR | O_CREAT, 0600);

    REQUIRE(file >= 0 && !ftruncate(file, sizeof(long)));
    volatile long *asked = mmap(NULL, sizeof *asked, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    REQUIRE(asked != MAP_FAILED);
    for (;; ++*asked)
        EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
}

int main(int count, char **arguments)
{
    char how = count > 1 ? *arguments[1] : 'e';
    int times = count > 2 ? atoi(arguments[2]) : 100000;
    pthread_t threads[2];
    CUevent first, second;
    int value;

    context = start_driver();
    CHECK(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&flag, 4));
    CHECK(cuMemsetD32Async(flag, 0, 1, other));
    CHECK(cuStreamSynchronize(other));
    CHECK(cuStreamWaitValue32(held, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
    first = recorded(), second = recorded();
    if (how == 't') {
        for (int i = 0; i < 2; i++)
            REQUIRE(!pthread_create(&threads[i], NULL, thread, &times));
        for (int i = 0; i < 2; i++)
            REQUIRE(!pthread_join(threads[i], NULL));
    }
    if (how == 'e' || how == 'k')
        ask(first, CUDA_ERROR_NOT_READY, times);
    if (how == 'b') {
        REQUIRE(!pthread_create(&threads[0], NULL, kill_later, &times));
        ask_on(first);
    }
    if (how == 'k') {
        printf("%lu %lu\n", events, streams);
        fflush(stdout);
        raise(SIGKILL);
    }
    if (how == 'c') {
        ask(first, CUDA_ERROR_NOT_READY, times);
        ask(second, CUDA_ERROR_NOT_READY, times);
        ask_stream(CUDA_ERROR_NOT_READY, times);
        for (int i = 0; i < 10; i++)
            ask(i & 1 ? first : second, CUDA_ERROR_NOT_READY, 1);
        ask(first, CUDA_ERROR_NOT_READY, 2);
    }
    CHECK(cuStreamWriteValue32(other, flag, 1, 0));
    CHECK(cuStreamSynchronize(other));
    // Within what may be a run the answer changes.
    CUresult result;
    do {
        result = cuEventQuery(first);
        events++;
    } while (result == CUDA_ERROR_NOT_READY);
    CHECK(result);
    CHECK(cuStreamSynchronize(held));
    if (how == 'd')
        ask(second, CUDA_SUCCESS, times);
    CHECK(cuMemcpyDtoH(&value, flag, 4));
    REQUIRE(value == 1);
    CHECK(cuMemFree(flag));
    printf("%lu %lu\n", events, streams);
    return 0;
}
