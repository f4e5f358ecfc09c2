// cuSPARSE: products of a sparse matrix with vectors, dense and sparse matrices; conversion; a triangular system
// nvcc: -lcusparse
#include "sample.h"
#include <cusparse.h>

int main()
{
    const int n = 400, columns_of_dense = 8;
    std::vector<int> rows(1), columns;
    std::vector<float> entries;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++)
            if (i == j || number(i * n + j) % 40 == 0) {
                columns.push_back(j);
                entries.push_back(i == j ? 8 : int(number(j * n + i) % 3));
            }
        rows.push_back(int(columns.size()));
    }
    int64_t count = int64_t(entries.size());
    std::vector<float> x = numbers(n * columns_of_dense, 16), wanted(n);
    for (int i = 0; i < n; i++)
        for (int k = rows[i]; k < rows[i + 1]; k++)
            wanted[i] += entries[k] * x[columns[k]];
    cusparseHandle_t handle;
    ZERO(cusparseCreate(&handle));
    int *device_rows = upload(rows), *device_columns = upload(columns);
    float *device_entries = upload(entries), *device_x = upload(x), *y = allocate<float>(n * columns_of_dense), one = 1, zero = 0;
    cusparseSpMatDescr_t matrix;
    cusparseDnVecDescr_t in, out;
    cusparseDnMatDescr_t dense_in, dense_out;
    ZERO(cusparseCreateCsr(&matrix, n, n, count, device_rows, device_columns, device_entries, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
        CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    ZERO(cusparseCreateDnVec(&in, n, device_x, CUDA_R_32F));
    ZERO(cusparseCreateDnVec(&out, n, y, CUDA_R_32F));
    ZERO(cusparseCreateDnMat(&dense_in, n, columns_of_dense, n, device_x, CUDA_R_32F, CUSPARSE_ORDER_COL));
    ZERO(cusparseCreateDnMat(&dense_out, n, columns_of_dense, n, y, CUDA_R_32F, CUSPARSE_ORDER_COL));
    size_t size;
    auto plain = CUSPARSE_OPERATION_NON_TRANSPOSE;
    ZERO(cusparseSpMV_bufferSize(handle, plain, &one, matrix, in, &zero, out, CUDA_R_32F, CUSPARSE_SPMV_CSR_ALG2, &size));
    void *buffer = allocate<char>(size + 1);
    ZERO(cusparseSpMV(handle, plain, &one, matrix, in, &zero, out, CUDA_R_32F, CUSPARSE_SPMV_CSR_ALG2, buffer));
    std::vector<float> results = download(y, n);
    REQUIRE(results == wanted);
    print("vector", results);
    ZERO(cusparseSpMM_bufferSize(handle, plain, plain, &one, matrix, dense_in, &zero, dense_out, CUDA_R_32F, CUSPARSE_SPMM_CSR_ALG2, &size));
    ZERO(cusparseSpMM(handle, plain, plain, &one, matrix, dense_in, &zero, dense_out, CUDA_R_32F, CUSPARSE_SPMM_CSR_ALG2, allocate<char>(size + 1)));
    print("dense", download(y, n * columns_of_dense));

    // The square of the matrix
    cusparseSpMatDescr_t square;
    cusparseSpGEMMDescr_t gemm;
    size_t first = 0, second = 0;
    ZERO(cusparseCreateCsr(&square, n, n, 0, allocate<int>(n + 1), nullptr, nullptr, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
        CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    ZERO(cusparseSpGEMM_createDescr(&gemm));
    auto algorithm = CUSPARSE_SPGEMM_DEFAULT;
    ZERO(cusparseSpGEMM_workEstimation(handle, plain, plain, &one, matrix, matrix, &zero, square, CUDA_R_32F, algorithm, gemm, &first, nullptr));
    ZERO(cusparseSpGEMM_workEstimation(handle, plain, plain, &one, matrix, matrix, &zero, square, CUDA_R_32F, algorithm, gemm, &first, allocate<char>(first + 1)));
    ZERO(cusparseSpGEMM_compute(handle, plain, plain, &one, matrix, matrix, &zero, square, CUDA_R_32F, algorithm, gemm, &second, nullptr));
    ZERO(cusparseSpGEMM_compute(handle, plain, plain, &one, matrix, matrix, &zero, square, CUDA_R_32F, algorithm, gemm, &second, allocate<char>(second + 1)));
    int64_t height, width, entries_of_square;
    ZERO(cusparseSpMatGetSize(square, &height, &width, &entries_of_square));
    REQUIRE(entries_of_square >= count);
    int *square_rows = allocate<int>(n + 1), *square_columns = allocate<int>(entries_of_square);
    float *square_values = allocate<float>(entries_of_square);
    ZERO(cusparseCsrSetPointers(square, square_rows, square_columns, square_values));
    ZERO(cusparseSpGEMM_copy(handle, plain, plain, &one, matrix, matrix, &zero, square, CUDA_R_32F, algorithm, gemm));
    print("square", download(square_values, entries_of_square));

    cusparseSpSVDescr_t solver;
    cusparseFillMode_t lower = CUSPARSE_FILL_MODE_LOWER;
    ZERO(cusparseSpMatSetAttribute(matrix, CUSPARSE_SPMAT_FILL_MODE, &lower, sizeof lower));
    ZERO(cusparseSpSV_createDescr(&solver));
    CHECK(cudaMemcpy(device_x, wanted.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    ZERO(cusparseSpSV_bufferSize(handle, plain, &one, matrix, in, out, CUDA_R_32F, CUSPARSE_SPSV_ALG_DEFAULT, solver, &size));
    ZERO(cusparseSpSV_analysis(handle, plain, &one, matrix, in, out, CUDA_R_32F, CUSPARSE_SPSV_ALG_DEFAULT, solver, allocate<char>(size + 1)));
    ZERO(cusparseSpSV_solve(handle, plain, &one, matrix, in, out, CUDA_R_32F, CUSPARSE_SPSV_ALG_DEFAULT, solver));
    CHECK(cudaDeviceSynchronize());
    results = download(y, n);
    for (int i = 0; i < n; i++)
        REQUIRE(fabsf(results[i] - x[i]) < 0.1f);
    print("solved", results);
    ZERO(cusparseDestroy(handle));
    return 0;
}
