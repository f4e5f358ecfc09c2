// A step of work for each line of the FIFO argv[1], and a line for each: the process, and what came back. argv[2]: that of a child
#include "check.h"
#include <unistd.h>

enum { N = 64 };

static void step(CUfunction function, int number)
{
    float a[N], b[N], c[N];
    unsigned n = N;
    CHECK(cuCtxSynchronize());
    CUdeviceptr da = allocate(sizeof a), db = allocate(sizeof b), dc = allocate(sizeof c);
    void *arguments[] = {&da, &db, &dc, &n};

    for (int i = 0; i < N; i++)
        a[i] = i, b[i] = number;
    CHECK(cuMemcpyHtoD(da, a, sizeof a));
    CHECK(cuMemcpyHtoD(db, b, sizeof b));
    CHECK(cuMemsetD8(dc, 0, sizeof c));
    CHECK(cuLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, NULL, arguments, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(c, dc, sizeof c));
    for (int i = 0; i < N; i++)
        REQUIRE(c[i] == i + number);
    CHECK(cuMemFree(da));
    CHECK(cuMemFree(db));
    CHECK(cuMemFree(dc));
    printf("%d %g\n", (int)getpid(), c[N - 1]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char line[64];

    REQUIRE(argc > 1);
    FILE *asked = fopen(argc > 2 && !fork() ? argv[2] : argv[1], "r");
    REQUIRE(asked);
    start_driver();
    CUfunction function = find_kernel(load_module("vector_add"), "vector_add");
    printf("%d ready\n", (int)getpid());
    fflush(stdout);
    for (int number = 1; fgets(line, sizeof line, asked); number++)
        step(function, number);
    return 0;
}
