// The product of two square matrices, by tiles in shared memory
#include "check.h"

enum { N = 40, TILE = 16, BLOCKS = (N + TILE - 1) / TILE };

int main(void)
{
    static float a[N][N], b[N][N], c[N][N];
    int n = N, i, j, k;

    start_driver();
    CUfunction function = find_kernel(load_module("matrix_product"), "matrix_product");
    CUdeviceptr da = allocate(sizeof a), db = allocate(sizeof b), dc = allocate(sizeof c);
    void *arguments[] = {&da, &db, &dc, &n};

    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++) {
            a[i][j] = i - j;
            b[i][j] = i * j % 7;
        }
    CHECK(cuMemcpyHtoD(da, a, sizeof a));
    CHECK(cuMemcpyHtoD(db, b, sizeof b));
    CHECK(cuLaunchKernel(function, BLOCKS, BLOCKS, 1, TILE, TILE, 1, 0, NULL, arguments, NULL));
    CHECK(cuMemcpyDtoH(c, dc, sizeof c));
    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++) {
            float sum = 0;

            for (k = 0; k < N; k++)
                sum += a[i][k] * b[k][j];
            REQUIRE(c[i][j] == sum);
        }
    printf("c[%d][%d] = %g\n", N - 1, N - 2, c[N - 1][N - 2]);
    CHECK(cuMemFree(da));
    CHECK(cuMemFree(db));
    CHECK(cuMemFree(dc));
    return 0;
}
