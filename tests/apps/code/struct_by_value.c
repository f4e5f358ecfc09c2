// A struct with pointers in it, passed by value
#include "check.h"

enum { N = 50 };

struct job {
    char tag;
    double scale;
    CUdeviceptr in, out;
    short counts[3];
};

int main(void)
{
    int in[N], out[N], n = N, i;

    start_driver();
    CUfunction function = find_kernel(load_module("structs"), "run_job");
    struct job job;

    memset(&job, 0, sizeof job);
    job.tag = 'c';
    job.scale = 1.5;
    job.in = allocate(sizeof in);
    job.out = allocate(sizeof out);
    for (i = 0; i < 3; i++)
        job.counts[i] = 1000 * i;
    for (i = 0; i < N; i++)
        in[i] = 7 * i;
    CHECK(cuMemcpyHtoD(job.in, in, sizeof in));
    launch(function, 1, 64, (void *[]){&job, &n});
    CHECK(cuMemcpyDtoH(out, job.out, sizeof out));
    for (i = 0; i < N; i++)
        REQUIRE(out[i] == (int)(in[i] * 1.5) + 1000 * (i % 3) + 'c');
    printf("%d\n", out[N - 1]);
    return 0;
}
