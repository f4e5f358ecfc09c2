// A conjugate gradient all of whose vectors are managed: cuSPARSE and cuBLAS write them, the CPU reads each step's results
// nvcc: -lcublas -lcusparse
#include "sample.h"
#include <cublas_v2.h>
#include <cusparse.h>

template <class T> T *managed(size_t count)
{
    T *memory;
    CHECK(cudaMallocManaged(&memory, count * sizeof(T)));
    return memory;
}

int main()
{
    const int n = 5000;
    int *rows = managed<int>(n + 1), *columns = managed<int>(3 * n), count = 0;
    double *values = managed<double>(3 * n), *x = managed<double>(n), *r = managed<double>(n), *p = managed<double>(n);
    double *product = managed<double>(n), *dot = managed<double>(2), one = 1, zero = 0;
    for (int i = 0; i < n; i++) {
        rows[i] = count;
        for (int j = i - 1; j <= i + 1; j++)
            if (j >= 0 && j < n) {
                columns[count] = j;
                values[count++] = i == j ? 2.5 : -1;
            }
    }
    rows[n] = count;
    cublasHandle_t blas;
    cusparseHandle_t sparse;
    cusparseSpMatDescr_t matrix;
    cusparseDnVecDescr_t from, to;
    ZERO(cublasCreate(&blas));
    ZERO(cusparseCreate(&sparse));
    ZERO(cusparseCreateCsr(&matrix, n, n, count, rows, columns, values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
        CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
    ZERO(cusparseCreateDnVec(&from, n, p, CUDA_R_64F));
    ZERO(cusparseCreateDnVec(&to, n, product, CUDA_R_64F));
    size_t bytes;
    void *workspace;
    ZERO(cusparseSpMV_bufferSize(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, from, &zero, to, CUDA_R_64F,
        CUSPARSE_SPMV_ALG_DEFAULT, &bytes));
    CHECK(cudaMallocManaged(&workspace, bytes + 1));
    for (bool prefetched : {false, true}) {
        for (int i = 0; i < n; i++) {
            x[i] = 0;
            r[i] = p[i] = 1 + i % 3;
        }
        if (prefetched) {
            cudaMemLocation device = {cudaMemLocationTypeDevice, 0};
            for (double *vector : {x, r, p, product})
                CHECK(cudaMemPrefetchAsync(vector, n * sizeof(double), device, 0, 0));
        }
        int steps = 0;
        ZERO(cublasDdot(blas, n, r, 1, r, 1, &dot[0]));
        for (; dot[0] > 1e-16 && steps < 100; steps++) {
            ZERO(cusparseSpMV(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, from, &zero, to, CUDA_R_64F,
                CUSPARSE_SPMV_ALG_DEFAULT, workspace));
            ZERO(cublasDdot(blas, n, p, 1, product, 1, &dot[1]));
            double alpha = dot[0] / dot[1], minus = -alpha, before = dot[0];
            ZERO(cublasDaxpy(blas, n, &alpha, p, 1, x, 1));
            ZERO(cublasDaxpy(blas, n, &minus, product, 1, r, 1));
            ZERO(cublasDdot(blas, n, r, 1, r, 1, &dot[0]));
            double beta = dot[0] / before;
            ZERO(cublasDscal(blas, n, &beta, p, 1));
            ZERO(cublasDaxpy(blas, n, &one, r, 1, p, 1));
        }
        CHECK(cudaDeviceSynchronize());
        double worst = 0;
        for (int i = 0; i < n; i++) {
            double sum = 2.5 * x[i] - (i ? x[i - 1] : 0) - (i + 1 < n ? x[i + 1] : 0) - (1 + i % 3);
            worst = sum > worst ? sum : -sum > worst ? -sum : worst;
        }
        REQUIRE(worst < 1e-7);
        printf("%d steps\n", steps);
        print("solution", std::vector<double>(x, x + n));
    }
    return 0;
}
