// nvcc: -lcusparse -lcublas -lcusolver
// A tour of sparse and batched algebra where sizes come from the libraries: entries in any order are sorted on the GPU, a product of sparse matrices
// whose number of entries is read back before its memory is made, transposes, samples of dense products, dense matrices pruned to sparse ones, and
// triangular systems with new values in an analysed pattern; batches of Cholesky factors, triangular solutions, and eigenvalues, by pointers in
// device memory. All numbers are small integers, so all that is sparse is exact. Temporary memory comes and goes in stream order.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusolverDn.h>
#include <cusparse.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorName(e_)); \
    exit(2); } } while (0)
#define LIB(x) do { int e_ = (int)(x); if (e_) { fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #x, e_); exit(2); } } while (0)

static int wrong; static uint64_t sum = 14695981039346656037ull; static cudaStream_t s;
static uint32_t mix(uint32_t v) { v ^= v >> 16; v *= 0x7feb352du; v ^= v >> 15; v *= 0x846ca68bu; return v ^ (v >> 16); }
template <class T> struct Buffer {                          // in stream order
    T *p = nullptr; size_t n = 0;
    explicit Buffer(size_t count) : n(count) { CK(cudaMallocAsync(&p, std::max<size_t>(n * sizeof(T), 16), s)); }
    explicit Buffer(const std::vector<T> &v) : Buffer(v.size()) { CK(cudaMemcpyAsync(p, v.data(), n * sizeof(T), cudaMemcpyHostToDevice, s)); }
    Buffer(const Buffer &) = delete;
    ~Buffer() { CK(cudaFreeAsync(p, s)); }
    std::vector<T> get() const { std::vector<T> v(n); CK(cudaMemcpyAsync(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost, s));
        CK(cudaStreamSynchronize(s)); return v; }
};
typedef std::vector<double> Dense;                          // by rows
static void check(const char *what, const Dense &got, const Dense &want, double most = 0)
{
    for (size_t i = 0; i < want.size(); i++) if (i >= got.size() || !(std::fabs(got[i] - want[i]) <= most)) { wrong++;
        fprintf(stderr, "%s differs at %zu\n", what, i); break; }
    for (double v : want) sum = (sum ^ (uint64_t)(int64_t)v) * 1099511628211ull;
}
static Dense times(const Dense &a, const Dense &b, int m, int k, int n)  // a is sparse
{
    Dense c((size_t)m * n);
    for (int i = 0; i < m; i++) for (int j = 0; j < k; j++) if (double v = a[(size_t)i * k + j]) { const double *q = &b[(size_t)j * n];
        double *p = &c[(size_t)i * n]; for (int x = 0; x < n; x++) p[x] += v * q[x]; }
    return c;
}
__global__ void prune(double *a, int n, double least) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n && fabs(a[i]) < least) a[i] = 0; }
__global__ void pointers(double **p, double *first, size_t step, int n, int turn) { int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = first + (i + turn) % n * step; }
__global__ void gram(double *to, const double *l, int n)   // a block for a matrix: l times its transpose, by columns
{
    const double *a = l + (size_t)blockIdx.x * n * n; double *c = to + (size_t)blockIdx.x * n * n;
    for (int i = threadIdx.x; i < n * n; i += blockDim.x) { double v = 0; int x = i / n, y = i % n;
        for (int k = 0; k <= min(x, y); k++) v += a[k * n + y] * a[k * n + x]; c[i] = v; }
}

static cusparseHandle_t sp;
static const double one = 1, zero = 0;
static Dense to_dense(cusparseSpMatDescr_t m, int rows, int cols)
{
    Buffer<double> d((size_t)rows * cols); cusparseDnMatDescr_t dm; size_t size; LIB(cusparseCreateDnMat(&dm, rows, cols, cols, d.p, CUDA_R_64F,
        CUSPARSE_ORDER_ROW));
    LIB(cusparseSparseToDense_bufferSize(sp, m, dm, CUSPARSE_SPARSETODENSE_ALG_DEFAULT, &size)); Buffer<char> w(size);
    LIB(cusparseSparseToDense(sp, m, dm, CUSPARSE_SPARSETODENSE_ALG_DEFAULT, w.p)); LIB(cusparseDestroyDnMat(dm)); return d.get();
}

static void sparse(int round)
{
    const cusparseOperation_t N = CUSPARSE_OPERATION_NON_TRANSPOSE; int n = 220 + round * 37, k = 24; Dense a((size_t)n * n);
    std::vector<int> rows, cols; std::vector<double> values;
    for (int i = 0; i < n * 7; i++) {                       // in no order
        uint32_t r = mix(i + round * 100000); int y = r % n, x = r / n % n; if (a[(size_t)y * n + x]) continue;
        double v = (int)(mix(r) % 7) - 3; if (v == 0) v = 4; a[(size_t)y * n + x] = v; rows.push_back(y); cols.push_back(x); values.push_back(v);
    }
    int nnz = (int)rows.size(); size_t size, size2; Buffer<int> y(rows), x(cols), order(nnz), offsets(n + 1); Buffer<double> unsorted(values), v(nnz);
    LIB(cusparseXcoosort_bufferSizeExt(sp, n, n, nnz, y.p, x.p, &size));
    {
        Buffer<char> w(size); cusparseDnVecDescr_t from; cusparseSpVecDescr_t to; LIB(cusparseCreateIdentityPermutation(sp, nnz, order.p));
        LIB(cusparseXcoosortByRow(sp, n, n, nnz, y.p, x.p, order.p, w.p));
        LIB(cusparseCreateDnVec(&from, nnz, unsorted.p, CUDA_R_64F)); LIB(cusparseCreateSpVec(&to, nnz, nnz, order.p, v.p, CUSPARSE_INDEX_32I,
            CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
        LIB(cusparseGather(sp, from, to)); LIB(cusparseDestroyDnVec(from)); LIB(cusparseDestroySpVec(to));
        LIB(cusparseXcoo2csr(sp, y.p, nnz, n, offsets.p, CUSPARSE_INDEX_BASE_ZERO));
    }
    cusparseSpMatDescr_t A, C; LIB(cusparseCreateCsr(&A, n, n, nnz, offsets.p, x.p, v.p, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
        CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
    check("sorted", to_dense(A, n, n), a);

    // The square: memory for the result when its number of entries is known
    Buffer<int> c_offsets(n + 1); LIB(cusparseCreateCsr(&C, n, n, 0, c_offsets.p, nullptr, nullptr, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
        CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
    cusparseSpGEMMDescr_t g; LIB(cusparseSpGEMM_createDescr(&g)); int64_t r_, c_, c_nnz;
    LIB(cusparseSpGEMM_workEstimation(sp, N, N, &one, A, A, &zero, C, CUDA_R_64F, CUSPARSE_SPGEMM_DEFAULT, g, &size, nullptr)); Buffer<char> w1(size);
    LIB(cusparseSpGEMM_workEstimation(sp, N, N, &one, A, A, &zero, C, CUDA_R_64F, CUSPARSE_SPGEMM_DEFAULT, g, &size, w1.p));
    LIB(cusparseSpGEMM_compute(sp, N, N, &one, A, A, &zero, C, CUDA_R_64F, CUSPARSE_SPGEMM_DEFAULT, g, &size2, nullptr)); Buffer<char> w2(size2);
    LIB(cusparseSpGEMM_compute(sp, N, N, &one, A, A, &zero, C, CUDA_R_64F, CUSPARSE_SPGEMM_DEFAULT, g, &size2, w2.p));
    LIB(cusparseSpMatGetSize(C, &r_, &c_, &c_nnz));
    Buffer<int> c_cols(c_nnz); Buffer<double> c_values(c_nnz); LIB(cusparseCsrSetPointers(C, c_offsets.p, c_cols.p, c_values.p));
    LIB(cusparseSpGEMM_copy(sp, N, N, &one, A, A, &zero, C, CUDA_R_64F, CUSPARSE_SPGEMM_DEFAULT, g)); LIB(cusparseSpGEMM_destroyDescr(g));
    Dense aa = times(a, a, n, n, n); check("square", to_dense(C, n, n), aa);

    {   // The transpose, and a product with a few dense columns: y = 2 a b + 3 y
        Buffer<int> t_offsets(n + 1), t_rows(nnz); Buffer<double> t_values(nnz); Dense t((size_t)n * n), b((size_t)n * k), d((size_t)n * k);
        LIB(cusparseCsr2cscEx2_bufferSize(sp, n, n, nnz, v.p, offsets.p, x.p, t_values.p, t_offsets.p, t_rows.p, CUDA_R_64F,
            CUSPARSE_ACTION_NUMERIC, CUSPARSE_INDEX_BASE_ZERO, CUSPARSE_CSR2CSC_ALG_DEFAULT, &size));
        Buffer<char> w(size);
        LIB(cusparseCsr2cscEx2(sp, n, n, nnz, v.p, offsets.p, x.p, t_values.p, t_offsets.p, t_rows.p, CUDA_R_64F, CUSPARSE_ACTION_NUMERIC,
            CUSPARSE_INDEX_BASE_ZERO, CUSPARSE_CSR2CSC_ALG_DEFAULT, w.p));
        cusparseSpMatDescr_t T; LIB(cusparseCreateCsr(&T, n, n, nnz, t_offsets.p, t_rows.p, t_values.p, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
            CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
        for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) t[(size_t)j * n + i] = a[(size_t)i * n + j];
        check("transpose", to_dense(T, n, n), t); LIB(cusparseDestroySpMat(T));
        for (int i = 0; i < n * k; i++) { b[i] = (int)(mix(i) % 9) - 4; d[i] = i % 5; } Buffer<double> db(b), dd(d); cusparseDnMatDescr_t B, D;
        double two = 2, three = 3;
        LIB(cusparseCreateDnMat(&B, n, k, k, db.p, CUDA_R_64F, CUSPARSE_ORDER_ROW)); LIB(cusparseCreateDnMat(&D, n, k, k, dd.p, CUDA_R_64F,
            CUSPARSE_ORDER_ROW));
        LIB(cusparseSpMM_bufferSize(sp, N, N, &two, A, B, &three, D, CUDA_R_64F, CUSPARSE_SPMM_CSR_ALG2, &size)); Buffer<char> w3(size);
        LIB(cusparseSpMM(sp, N, N, &two, A, B, &three, D, CUDA_R_64F, CUSPARSE_SPMM_CSR_ALG2, w3.p)); Dense ab = times(a, b, n, n, k);
        for (int i = 0; i < n * k; i++) d[i] = 2 * ab[i] + 3 * d[i];
        check("sparse by dense", dd.get(), d);
        // Samples of d times b's transpose, at the places of a
        cusparseDnMatDescr_t Bt; LIB(cusparseCreateDnMat(&Bt, k, n, k, db.p, CUDA_R_64F, CUSPARSE_ORDER_COL));
        LIB(cusparseSDDMM_bufferSize(sp, N, N, &one, D, Bt, &two, A, CUDA_R_64F, CUSPARSE_SDDMM_ALG_DEFAULT, &size)); Buffer<char> w4(size);
        LIB(cusparseSDDMM(sp, N, N, &one, D, Bt, &two, A, CUDA_R_64F, CUSPARSE_SDDMM_ALG_DEFAULT, w4.p)); Dense sampled((size_t)n * n);
        for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) if (double old = a[(size_t)i * n + j]) { double q = 2 * old;
            for (int c = 0; c < k; c++) q += d[i * k + c] * b[j * k + c]; sampled[(size_t)i * n + j] = q; }
        check("samples", to_dense(A, n, n), sampled); for (auto m : {B, D, Bt}) LIB(cusparseDestroyDnMat(m));
    }
    {   // Dense to sparse: the square without what is small
        Buffer<double> d(aa); prune<<<(n * n + 255) / 256, 256, 0, s>>>(d.p, n * n, 9); CK(cudaGetLastError());
        for (double &q : aa) if (std::fabs(q) < 9) q = 0;
        Buffer<int> p_offsets(n + 1); cusparseDnMatDescr_t D; cusparseSpMatDescr_t P; int64_t p_nnz;
        LIB(cusparseCreateDnMat(&D, n, n, n, d.p, CUDA_R_64F, CUSPARSE_ORDER_ROW));
        LIB(cusparseCreateCsr(&P, n, n, 0, p_offsets.p, nullptr, nullptr, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
            CUDA_R_64F));
        LIB(cusparseDenseToSparse_bufferSize(sp, D, P, CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, &size)); Buffer<char> w(size);
        LIB(cusparseDenseToSparse_analysis(sp, D, P, CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, w.p));
        LIB(cusparseSpMatGetSize(P, &r_, &c_, &p_nnz)); Buffer<int> p_cols(p_nnz); Buffer<double> p_values(p_nnz);
        LIB(cusparseCsrSetPointers(P, p_offsets.p, p_cols.p, p_values.p));
        LIB(cusparseDenseToSparse_convert(sp, D, P, CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, w.p));
        wrong += p_nnz != (int64_t)aa.size() - std::count(aa.begin(), aa.end(), 0.0);
        check("pruned", to_dense(P, n, n), aa); LIB(cusparseDestroyDnMat(D)); LIB(cusparseDestroySpMat(P));
    }
    {   // A triangle with ones on the diagonal: l z = b, and again with other values in the same pattern
        std::vector<int> o = {0}, c; std::vector<double> q; Dense z(n), b(n);
        for (int i = 0; i < n; i++) { if (i > 3) { c.push_back(i - 1 - (int)(mix(i) % 3)); q.push_back((int)(mix(i * 3) % 3) - 1); } c.push_back(i);
            q.push_back(1); o.push_back((int)c.size()); }
        Buffer<int> d_o(o), d_c(c); Buffer<double> d_q(q), d_z(n), d_b(n); cusparseSpMatDescr_t L; cusparseDnVecDescr_t X, Y; cusparseSpSVDescr_t d;
        LIB(cusparseSpSV_createDescr(&d));
        LIB(cusparseCreateCsr(&L, n, n, c.size(), d_o.p, d_c.p, d_q.p, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
        cusparseFillMode_t lower = CUSPARSE_FILL_MODE_LOWER; cusparseDiagType_t unit = CUSPARSE_DIAG_TYPE_UNIT;
        LIB(cusparseSpMatSetAttribute(L, CUSPARSE_SPMAT_FILL_MODE, &lower, sizeof lower));
        LIB(cusparseSpMatSetAttribute(L, CUSPARSE_SPMAT_DIAG_TYPE, &unit, sizeof unit)); LIB(cusparseCreateDnVec(&X, n, d_b.p, CUDA_R_64F));
        LIB(cusparseCreateDnVec(&Y, n, d_z.p, CUDA_R_64F));
        LIB(cusparseSpSV_bufferSize(sp, N, &one, L, X, Y, CUDA_R_64F, CUSPARSE_SPSV_ALG_DEFAULT, d, &size)); Buffer<char> w(size);
        LIB(cusparseSpSV_analysis(sp, N, &one, L, X, Y, CUDA_R_64F, CUSPARSE_SPSV_ALG_DEFAULT, d, w.p));
        for (int turn = 0; turn < 3; turn++) {
            if (turn) { for (int i = 0; i < n; i++) for (int e = o[i]; e < o[i + 1]; e++) if (c[e] != i) q[e] = (int)(mix(e + turn * 999) % 3) - 1;
                Buffer<double> other(q); CK(cudaMemcpyAsync(d_q.p, other.p, q.size() * 8, cudaMemcpyDeviceToDevice, s));
                LIB(cusparseSpSV_updateMatrix(sp, d, other.p, CUSPARSE_SPSV_UPDATE_GENERAL)); CK(cudaStreamSynchronize(s)); }
            for (int i = 0; i < n; i++) { z[i] = (int)(mix(i + turn) % 21) - 10; b[i] = 0;
                } for (int i = 0; i < n; i++) for (int e = o[i]; e < o[i + 1]; e++) b[i] += q[e] * z[c[e]];
            CK(cudaMemcpyAsync(d_b.p, b.data(), n * 8, cudaMemcpyHostToDevice, s)); LIB(cusparseSpSV_solve(sp, N, &one, L, X, Y, CUDA_R_64F,
                CUSPARSE_SPSV_ALG_DEFAULT, d)); check("triangle", d_z.get(), z);
        }
        LIB(cusparseSpSV_destroyDescr(d)); LIB(cusparseDestroySpMat(L)); LIB(cusparseDestroyDnVec(X)); LIB(cusparseDestroyDnVec(Y));
    }
    LIB(cusparseDestroySpMat(A)); LIB(cusparseDestroySpMat(C)); CK(cudaStreamSynchronize(s));
}

static void batched(cublasHandle_t blas, cusolverDnHandle_t solver, int round)
{
    int n = 12 + round * 5, count = 40, rhs = 3; size_t each = (size_t)n * n; std::vector<double> l(each * count), z((size_t)n * rhs * count),
        b(z.size());
    for (int m = 0; m < count; m++) for (int x = 0; x < n; x++) for (int y = x; y < n; y++) {      // by columns; a power of two on the diagonal
        uint32_t r = mix((m * n + x) * n + y + round); l[m * each + x * n + y] = x == y ? 2 << r % 2 : r / 8 % 5 ? 0 : r / 64 % 2 ? 1 : -1; }
    Buffer<double> dl(l), da(each * count); Buffer<double *> pa(count), pb(count); Buffer<int> info(count);
    // in turned order
    gram<<<count, 128, 0, s>>>(da.p, dl.p, n); pointers<<<1, 64, 0, s>>>(pa.p, da.p, each, count, round * 3); CK(cudaGetLastError());
    LIB(cusolverDnDpotrfBatched(solver, CUBLAS_FILL_MODE_LOWER, n, pa.p, n, info.p, count)); for (int i : info.get()) wrong += i != 0;
    // the upper half is not said
    std::vector<double> got = da.get(); for (int m = 0; m < count; m++) for (int x = 0; x < n; x++) for (int y = 0; y < x;
        y++) got[m * each + x * n + y] = 0;
    check("Cholesky", got, l, 1e-9);
    for (size_t i = 0; i < z.size(); i++) z[i] = (int)(mix(i + round) % 7) - 3;
    for (int m = 0; m < count; m++) for (int c = 0; c < rhs; c++) for (int y = 0; y < n; y++) { double t = 0;
        for (int k = 0; k <= y; k++) t += l[m * each + k * n + y] * z[(m * rhs + c) * n + k]; b[(m * rhs + c) * n + y] = t; }
    Buffer<double> db(b); pointers<<<1, 64, 0, s>>>(pb.p, db.p, (size_t)n * rhs, count, round * 3); CK(cudaGetLastError());
    LIB(cublasDtrsmBatched(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, n, rhs, &one, pa.p, n, pb.p, n,
        count)); check("solutions", db.get(), z, 1e-9);
    gram<<<count, 96, 0, s>>>(da.p, dl.p, n); CK(cudaGetLastError());        // eigenvalues: their sum and the sum of their squares are known
    Buffer<double> values((size_t)n * count); syevjInfo_t params; int work; LIB(cusolverDnCreateSyevjInfo(&params));
    LIB(cusolverDnDsyevjBatched_bufferSize(solver, CUSOLVER_EIG_MODE_NOVECTOR, CUBLAS_FILL_MODE_LOWER, n, da.p, n, values.p, &work, params, count));
    Buffer<double> w(work);
    std::vector<double> a = da.get(); LIB(cusolverDnDsyevjBatched(solver, CUSOLVER_EIG_MODE_NOVECTOR, CUBLAS_FILL_MODE_LOWER, n, da.p, n, values.p,
        w.p, work, info.p, params, count));
    std::vector<double> e = values.get(); LIB(cusolverDnDestroySyevjInfo(params));
    for (int m = 0; m < count; m++) {
        double trace = 0, squares = 0, t = 0, q = 0; for (size_t i = 0; i < each; i++) { squares += a[m * each + i] * a[m * each + i];
            if (i % (n + 1) == 0) trace += a[m * each + i]; }
        for (int i = 0; i < n; i++) { t += e[m * n + i]; q += e[m * n + i] * e[m * n + i]; }
        if (std::fabs(t - trace) > 1e-7 * trace || std::fabs(q - squares) > 1e-7 * squares) { wrong++;
            fprintf(stderr, "eigenvalues of %d differ\n", m); }
        sum = (sum ^ (uint64_t)trace ^ (uint64_t)squares << 20) * 1099511628211ull;
    }
}

int main()
{
    CK(cudaSetDevice(0)); CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); cublasHandle_t blas; cusolverDnHandle_t solver;
    LIB(cusparseCreate(&sp)); LIB(cusparseSetStream(sp, s)); LIB(cublasCreate(&blas)); LIB(cublasSetStream(blas, s));
    LIB(cusolverDnCreate(&solver)); LIB(cusolverDnSetStream(solver, s));
    for (int round = 0; round < 4; round++) { sparse(round); batched(blas, solver, round); }
    LIB(cusparseDestroy(sp)); LIB(cublasDestroy(blas)); LIB(cusolverDnDestroy(solver)); CK(cudaStreamSynchronize(s)); CK(cudaStreamDestroy(s));
    printf("sparsekit: checksum %016llx wrong %d\n", (unsigned long long)sum, wrong);
    return wrong != 0;
}
