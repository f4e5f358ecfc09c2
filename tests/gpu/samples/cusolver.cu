// cuSOLVER: LU, Cholesky, QR, eigenvalues and singular values of dense matrices; a sparse system
// nvcc: -lcusolver -lcusparse -lcublas
#include "sample.h"
#include <cusolverDn.h>
#include <cusolverSp.h>

int main()
{
    const int n = 48;
    std::vector<double> a = numbers<double>(n * n, 50), b = numbers<double>(n, 20), symmetric(n * n);
    for (int i = 0; i < n; i++) {
        a[i * n + i] += 2000;
        for (int j = 0; j < n; j++)
            symmetric[i * n + j] = (number(i * j + 3) % 50 + number(j * i + 3) % 50) / 2.0 + (i == j ? 3000 : 0);
    }
    cusolverDnHandle_t handle;
    ZERO(cusolverDnCreate(&handle));
    double *matrix = upload(a), *x = upload(b), *work;
    int size, *pivots = allocate<int>(n), *info = allocate<int>(1);
    ZERO(cusolverDnDgetrf_bufferSize(handle, n, n, matrix, n, &size));
    work = allocate<double>(size);
    ZERO(cusolverDnDgetrf(handle, n, n, matrix, n, work, pivots, info));
    ZERO(cusolverDnDgetrs(handle, CUBLAS_OP_N, n, 1, matrix, n, pivots, x, n, info));
    CHECK(cudaDeviceSynchronize());
    std::vector<double> solution = download(x, n);
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int j = 0; j < n; j++)
            sum += a[j * n + i] * solution[j];
        REQUIRE(fabs(sum - b[i]) < 1e-9);
    }
    print("LU", solution);

    matrix = upload(symmetric);
    ZERO(cusolverDnDpotrf_bufferSize(handle, CUBLAS_FILL_MODE_LOWER, n, matrix, n, &size));
    work = allocate<double>(size);
    ZERO(cusolverDnDpotrf(handle, CUBLAS_FILL_MODE_LOWER, n, matrix, n, work, size, info));
    CHECK(cudaDeviceSynchronize());
    REQUIRE(download(info, 1)[0] == 0);
    print("Cholesky", download(matrix, n * n));

    matrix = upload(a);
    double *tau = allocate<double>(n), *values = allocate<double>(n);
    ZERO(cusolverDnDgeqrf_bufferSize(handle, n, n, matrix, n, &size));
    work = allocate<double>(size);
    ZERO(cusolverDnDgeqrf(handle, n, n, matrix, n, tau, work, size, info));
    CHECK(cudaDeviceSynchronize());
    print("QR", download(tau, n));

    matrix = upload(symmetric);
    ZERO(cusolverDnDsyevd_bufferSize(handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, n, matrix, n, values, &size));
    work = allocate<double>(size);
    ZERO(cusolverDnDsyevd(handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, n, matrix, n, values, work, size, info));
    CHECK(cudaDeviceSynchronize());
    std::vector<double> eigenvalues = download(values, n);
    double trace = 0, wanted = 0;
    for (int i = 0; i < n; i++) {
        trace += eigenvalues[i];
        wanted += symmetric[i * n + i];
    }
    REQUIRE(fabs(trace - wanted) < 1e-6);
    print("eigenvalues", eigenvalues);

    gesvdjInfo_t jacobi;
    ZERO(cusolverDnCreateGesvdjInfo(&jacobi));
    matrix = upload(a);
    double *u = allocate<double>(n * n), *v = allocate<double>(n * n);
    ZERO(cusolverDnDgesvdj_bufferSize(handle, CUSOLVER_EIG_MODE_VECTOR, 0, n, n, matrix, n, values, u, n, v, n, &size, jacobi));
    work = allocate<double>(size);
    ZERO(cusolverDnDgesvdj(handle, CUSOLVER_EIG_MODE_VECTOR, 0, n, n, matrix, n, values, u, n, v, n, work, size, info, jacobi));
    CHECK(cudaDeviceSynchronize());
    print("singular values", download(values, n));

    // A band matrix
    std::vector<int> rows(1), columns;
    std::vector<double> entries;
    for (int i = 0; i < n; i++) {
        for (int j = i > 0 ? i - 1 : 0; j <= i + 1 && j < n; j++) {
            columns.push_back(j);
            entries.push_back(i == j ? 4 : -1);
        }
        rows.push_back(int(columns.size()));
    }
    cusolverSpHandle_t sparse;
    cusparseMatDescr_t shape;
    int singular;
    ZERO(cusolverSpCreate(&sparse));
    ZERO(cusparseCreateMatDescr(&shape));
    ZERO(cusolverSpDcsrlsvchol(sparse, n, int(entries.size()), shape, upload(entries), upload(rows), upload(columns), upload(b), 1e-12, 0, x, &singular));
    REQUIRE(singular < 0);
    CHECK(cudaDeviceSynchronize());
    print("sparse", download(x, n));
    ZERO(cusolverDnDestroy(handle));
    return 0;
}
