// What calls cost, by the clock of the program that makes them: a line `name<TAB>unit<TAB>value` each. Pinned memory is absent, there and
// not used, or given to each kernel (argument 1); argument 2 is how many threads the last rows have. For scripts/bench, which runs it
// bare and under recorders. With "memory" as argument 1, argument 2 is how many queries are made, none of which repeats one of the last, and a line
// `resident<TAB>calls<TAB>bytes` is printed ten times.
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(call)                                                                                                                    \
    do {                                                                                                                               \
        CUresult result_ = (call);                                                                                                     \
        if (result_ != CUDA_SUCCESS) {                                                                                                 \
            fprintf(stderr, "%s gives %d\n", #call, result_);                                                                          \
            exit(1);                                                                                                                   \
        }                                                                                                                              \
    } while (0)

// The fewest nanoseconds a call of some rounds
#define ROW(name, calls, body)                                                                                                         \
    do {                                                                                                                               \
        double least = 1e18;                                                                                                           \
        for (int round = 0; round < ROUNDS; round++) {                                                                                 \
            double began = now();                                                                                                      \
            for (int i = 0; i < (calls); i++) {                                                                                        \
                body;                                                                                                                  \
            }                                                                                                                          \
            double took = now() - began;                                                                                               \
            CHECK(cuCtxSynchronize());                                                                                                 \
            least = took < least ? took : least;                                                                                       \
        }                                                                                                                              \
        print(name, "ns", least / (calls));                                                                                            \
    } while (0)

// The most bytes a nanosecond
#define RATE(name, copies, bytes, body)                                                                                                \
    do {                                                                                                                               \
        double least = 1e18;                                                                                                           \
        for (int round = 0; round < ROUNDS; round++) {                                                                                 \
            double took = 0;                                                                                                           \
            for (int i = 0; i < (copies); i++) {                                                                                       \
                body;                                                                                                                  \
            }                                                                                                                          \
            least = took < least ? took : least;                                                                                       \
        }                                                                                                                              \
        print(name, "GB/s", (double)(copies) * (bytes) / least);                                                                       \
    } while (0)

#define TIMED(body)                                                                                                                    \
    do {                                                                                                                               \
        double began = now();                                                                                                          \
        body;                                                                                                                          \
        took += now() - began;                                                                                                         \
    } while (0)

enum { ROUNDS = 5, LARGE = 64 << 20, SMALL = 4096, PAGE = 4096, MOST_THREADS = 64 };

static const char *const CODE = ".version 7.0\n.target sm_50\n.address_size 64\n"
                                ".visible .entry nothing(.param .u64 p, .param .u32 n, .param .align 8 .b8 s[24]) { ret; }\n"
                                ".visible .entry given(.param .u64 p, .param .u32 n, .param .u64 q) { ret; }\n";

static CUcontext context;
static CUfunction nothing, given;
static CUdeviceptr memory;
static pthread_barrier_t together;
static double of_threads[3][MOST_THREADS];

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void print(const char *name, const char *unit, double value)
{
    printf("%s\t%s\t%.2f\n", name, unit, value);
    fflush(stdout);
}

static void *thread(void *number)
{
    enum { ASKED = 200000, LAUNCHED = 20000 };
    long index = (long)number;
    unsigned n = 7;
    char structure[24] = {0};
    void *arguments[] = {&memory, &n, structure};
    CUcontext found;
    CUdevice device;
    CUstream stream;

    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 100; i++)
        CHECK(cuLaunchKernel(nothing, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
    CHECK(cuStreamSynchronize(stream));
    pthread_barrier_wait(&together);
    double began = now();
    for (int i = 0; i < ASKED; i++)
        cuCtxGetCurrent(&found);
    of_threads[0][index] = (now() - began) / ASKED;
    pthread_barrier_wait(&together);
    began = now();
    for (int i = 0; i < ASKED / 2; i++) {
        cuCtxGetCurrent(&found);
        cuCtxGetDevice(&device);
    }
    of_threads[1][index] = (now() - began) / ASKED;
    pthread_barrier_wait(&together);
    began = now();
    for (int i = 0; i < LAUNCHED; i++)
        cuLaunchKernel(nothing, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
    of_threads[2][index] = (now() - began) / LAUNCHED;
    CHECK(cuStreamSynchronize(stream));
    return NULL;
}

static void side_by_side(int count)
{
    const char *const names[] = {"same query", "queries in turn", "launch"};
    pthread_t threads[MOST_THREADS];
    char name[64];

    pthread_barrier_init(&together, NULL, count);
    for (long i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, thread, (void *)i);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    for (int row = 0; row < 3; row++) {
        double sum = 0;
        for (int i = 0; i < count; i++)
            sum += of_threads[row][i];
        snprintf(name, sizeof name, "%s, %d threads", names[row], count);
        print(name, "ns", sum / count);
    }
}

static void long_copies(char *pageable, char *pinned, CUstream stream)
{
    CUdeviceptr large;
    unsigned long long *words = (unsigned long long *)pageable, seed = 1;

    CHECK(cuMemAlloc(&large, LARGE));
    RATE("copy 64 MiB to device, pageable, 1 page new", 10, LARGE, {
        pageable[i * PAGE]++;
        TIMED(CHECK(cuMemcpyHtoD(large, pageable, LARGE)));
    });
    RATE("copy 64 MiB to device, pageable, all new", 3, LARGE, {
        for (int at = 0; at < LARGE / 8; at++)
            words[at] = seed = seed * 6364136223846793005 + 1442695040888963407;
        TIMED(CHECK(cuMemcpyHtoD(large, pageable, LARGE)));
    });
    RATE("copy 64 MiB to host, pageable", 10, LARGE, TIMED(CHECK(cuMemcpyDtoH(pageable, large, LARGE))));
    if (!pinned)
        return;
    RATE("copy 64 MiB to device, pinned, 1 page new", 10, LARGE, {
        pinned[i * PAGE]++;
        TIMED({
            CHECK(cuMemcpyHtoDAsync(large, pinned, LARGE, stream));
            CHECK(cuStreamSynchronize(stream));
        });
    });
}

// What all the memory takes that is in use now
static long resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (!file || fscanf(file, "%*d %ld", &pages) != 1)
        exit(1);
    fclose(file);
    return pages * PAGE;
}

static int memory_of_queries(long calls)
{
    CUdevice device;
    int value;

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    for (long i = 0; i < calls; i++) {
        CHECK(cuDeviceGetAttribute(&value, (CUdevice_attribute)(1 + i % 80), device));
        if ((i + 1) % (calls / 10) == 0)
            printf("resident\t%ld\t%ld\n", i + 1, resident());
    }
    return 0;
}

int main(int count, char **arguments)
{
    const char *mode = count > 1 ? arguments[1] : "there";
    int threads = count > 2 ? atoi(arguments[2]) : 16;
    unsigned n = 7;
    char structure[24] = {0}, *pageable = malloc(LARGE), *pinned = NULL, *shared = NULL;
    CUmodule module;
    CUcontext found;
    CUdevice device;
    CUstream stream;
    CUevent event;
    CUgraph graph;

    if (!strcmp(mode, "memory"))
        return memory_of_queries(count > 2 && atol(arguments[2]) >= 10 ? atol(arguments[2]) : 10);
    memset(pageable, 1, LARGE);
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, CODE));
    CHECK(cuModuleGetFunction(&nothing, module, "nothing"));
    CHECK(cuModuleGetFunction(&given, module, "given"));
    CHECK(cuMemAlloc(&memory, 1 << 20));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    if (strcmp(mode, "absent")) {
        CHECK(cuMemAllocHost((void **)&pinned, LARGE));
        memset(pinned, 2, LARGE);
    }
    void *usual[] = {&memory, &n, structure}, *named[] = {&memory, &n, &shared}, **kernel_arguments = usual;
    CUfunction kernel = nothing;
    if (!strcmp(mode, "used")) {
        CHECK(cuMemAllocHost((void **)&shared, 1 << 16));
        memset(shared, 3, 1 << 16);
        kernel = given, kernel_arguments = named;
    }
    ROW("same query", 500000, cuCtxGetCurrent(&found));
    ROW("queries in turn", 500000, i % 2 ? cuCtxGetCurrent(&found) : cuCtxGetDevice(&device));
    ROW("poll", 100000, cuStreamQuery(stream));
    ROW("event", 20000, cuEventRecord(event, stream));
    ROW("launch, 500", 500, cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, kernel_arguments, NULL));
    ROW("launch, 50,000", 50000, cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, kernel_arguments, NULL));
    double least = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        double began = now();
        for (int i = 0; i < 20000; i++)
            cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, kernel_arguments, NULL);
        double took = (now() - began) / 20000;
        CHECK(cuStreamEndCapture(stream, &graph));
        CHECK(cuGraphDestroy(graph));
        least = took < least ? took : least;
    }
    print("launch while capturing", "ns", least);
    ROW("copy 4 KiB to device", 20000, cuMemcpyHtoD(memory, pageable, SMALL));
    if (pinned)
        ROW("copy 4 KiB to device, pinned, async", 20000, cuMemcpyHtoDAsync(memory, pinned, SMALL, stream));
    if (count < 4 || atoi(arguments[3]))
        long_copies(pageable, pinned, stream);
    if (threads > 0)
        side_by_side(threads);
    return 0;
}
