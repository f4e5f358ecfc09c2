// Memory and an event of one process used by another, which runs the same program anew
#include "sample.h"
#include <sys/wait.h>
#include <unistd.h>

__global__ void add(int *values, int what) { values[threadIdx.x] += what * threadIdx.x; }

struct Handles {
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t event;
};

static int child()
{
    Handles handles;
    REQUIRE(read(0, &handles, sizeof handles) == sizeof handles);
    int *values;
    cudaEvent_t event;
    CHECK(cudaIpcOpenMemHandle(reinterpret_cast<void **>(&values), handles.memory, cudaIpcMemLazyEnablePeerAccess));
    CHECK(cudaIpcOpenEventHandle(&event, handles.event));
    CHECK(cudaStreamWaitEvent(0, event, 0));
    add<<<1, 256>>>(values, 3);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaIpcCloseMemHandle(values));
    return 0;
}

int main(int count, char **arguments)
{
    if (count > 1)
        return child();
    int ends[2], status;
    REQUIRE(pipe(ends) == 0);
    pid_t process = fork();
    if (process == 0) {
        dup2(ends[0], 0);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", arguments[0], "child", nullptr);
        _exit(1);
    }
    Handles handles;
    int *values = allocate<int>(256);
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
    CHECK(cudaMemset(values, 0, 256 * sizeof(int)));
    add<<<1, 256>>>(values, 1);
    CHECK(cudaEventRecord(event));
    CHECK(cudaIpcGetMemHandle(&handles.memory, values));
    CHECK(cudaIpcGetEventHandle(&handles.event, event));
    REQUIRE(write(ends[1], &handles, sizeof handles) == sizeof handles);
    REQUIRE(waitpid(process, &status, 0) == process && status == 0);
    std::vector<int> results = download(values, 256);
    for (int i = 0; i < 256; i++)
        REQUIRE(results[i] == 4 * i);
    print("results", results);
    return 0;
}
