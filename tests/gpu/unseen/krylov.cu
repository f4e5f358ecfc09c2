// Linear systems: conjugate gradients with cuSPARSE and cuBLAS, the same in managed memory, as a captured graph, in one cooperative launch;
// preconditioned by an incomplete LU; cuSolver's dense factorisations, sparse ones, and refactorisation.
// nvcc: -lcublas -lcusparse -lcusolver
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "suite.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cublas_v2.h>
#include <cusolverDn.h>
#include <cusolverRf.h>
#include <cusolverSp.h>
#include <cusparse.h>
namespace cg = cooperative_groups;
static const int NX = 64, N = NX * NX;
static std::vector<int> rowPtr, colInd;
static std::vector<double> val, rhs;
static void laplace()
{
    rowPtr.push_back(0);
    for (int i = 0; i < N; i++) {
        int x = i % NX, y = i / NX;
        auto add = [&](int j, double v) { colInd.push_back(j); val.push_back(v); };
        if (y) add(i - NX, -1);
        if (x) add(i - 1, -1);
        add(i, 4.05);
        if (x < NX - 1) add(i + 1, -1);
        if (y < NX - 1) add(i + NX, -1);
        rowPtr.push_back((int)colInd.size());
    }
    for (int i = 0; i < N; i++) rhs.push_back(frand() - .3);
}
static double residual(const double *x)
{
    double worst = 0;
    for (int i = 0; i < N; i++) { double s = rhs[i]; for (int k = rowPtr[i]; k < rowPtr[i + 1]; k++) s -= val[k] * x[colInd[k]]; worst = fmax(worst, fabs(s)); }
    return worst;
}
template <class T> static T *upload(const std::vector<T> &v) { T *p; checkCuda(cudaMalloc((void **)&p, v.size() * sizeof(T))); checkCuda(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice)); return p; }

__global__ void initVectors(double *x, double *r, const double *b) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < N) { r[i] = b[i]; x[i] = 0; } }
__global__ void divideScalars(const double *a, const double *b, double *out, double *negative) { *out = *a / *b; if (negative) *negative = -*a / *b; }

// ---------------------------------------------------------------- one cooperative launch
__device__ double gridDot(const double *a, const double *b, int n, double *parts, const cg::grid_group &grid)
{
    __shared__ double s[32];
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    double sum = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) sum += a[i] * b[i];
    sum = cg::reduce(warp, sum, cg::plus<double>());
    if (warp.thread_rank() == 0) s[warp.meta_group_rank()] = sum;
    cg::sync(block);
    if (block.thread_rank() == 0) { sum = 0; for (int i = 0; i < warp.meta_group_size(); i++) sum += s[i]; parts[blockIdx.x] = sum; }
    cg::sync(grid);
    sum = 0;
    for (int i = 0; i < gridDim.x; i++) sum += ((volatile double *)parts)[i];   // everyone in the same order
    cg::sync(grid);
    return sum;
}
__global__ void cooperativeCG(const int *rows, const int *cols, const double *values, int n, double *x, double *r, double *p, double *ap, double *parts, double tolerance, int *iterations)
{
    cg::grid_group grid = cg::this_grid();
    for (int i = grid.thread_rank(); i < n; i += grid.size()) { x[i] = 0; p[i] = r[i]; }
    cg::sync(grid);
    double rr = gridDot(r, r, n, parts, grid); int k = 0;
    while (rr > tolerance * tolerance && k < 2000) {
        for (int i = grid.thread_rank(); i < n; i += grid.size()) { double s = 0; for (int j = rows[i]; j < rows[i + 1]; j++) s += values[j] * p[cols[j]]; ap[i] = s; }
        cg::sync(grid);
        double alpha = rr / gridDot(p, ap, n, parts, grid);
        for (int i = grid.thread_rank(); i < n; i += grid.size()) { x[i] += alpha * p[i]; r[i] -= alpha * ap[i]; }
        cg::sync(grid);
        double next = gridDot(r, r, n, parts, grid), beta = next / rr;
        for (int i = grid.thread_rank(); i < n; i += grid.size()) p[i] = r[i] + beta * p[i];
        cg::sync(grid);
        rr = next; k++;
    }
    if (grid.thread_rank() == 0) *iterations = k;
}
struct Sparse {
    cusparseHandle_t h; cusparseSpMatDescr_t a; cusparseDnVecDescr_t vp, vap; double one = 1, zero = 0; void *buffer = 0; size_t size;
    Sparse(int *rows, int *cols, double *values, double *p, double *ap)
    {
        checkLib(cusparseCreate(&h));
        checkLib(cusparseCreateCsr(&a, N, N, val.size(), rows, cols, values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
        checkLib(cusparseCreateDnVec(&vp, N, p, CUDA_R_64F)); checkLib(cusparseCreateDnVec(&vap, N, ap, CUDA_R_64F));
        checkLib(cusparseSpMV_bufferSize(h, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, a, vp, &zero, vap, CUDA_R_64F, CUSPARSE_SPMV_CSR_ALG2, &size));
        checkCuda(cudaMalloc(&buffer, size + 1));
    }
    void multiply(const double *one, const double *zero) { checkLib(cusparseSpMV(h, CUSPARSE_OPERATION_NON_TRANSPOSE, one, a, vp, zero, vap, CUDA_R_64F, CUSPARSE_SPMV_CSR_ALG2, buffer)); }
    ~Sparse() { cusparseDestroyDnVec(vp); cusparseDestroyDnVec(vap); cusparseDestroySpMat(a); cusparseDestroy(h); cudaFree(buffer); }
};
// The plain loop, whose scalars the CPU has
static int plainCG(cublasHandle_t blas, Sparse &s, double *x, double *r, double *p, double *ap)
{
    double rr, before = 0, pap; int k = 0;
    checkLib(cublasDdot(blas, N, r, 1, r, 1, &rr));
    while (rr > 1e-18 && k < 2000) {
        if (k) { double beta = rr / before; checkLib(cublasDscal(blas, N, &beta, p, 1)); checkLib(cublasDaxpy(blas, N, &s.one, r, 1, p, 1)); }
        else checkLib(cublasDcopy(blas, N, r, 1, p, 1));
        s.multiply(&s.one, &s.zero);
        checkLib(cublasDdot(blas, N, p, 1, ap, 1, &pap));
        double alpha = rr / pap, minus = -alpha;
        checkLib(cublasDaxpy(blas, N, &alpha, p, 1, x, 1)); checkLib(cublasDaxpy(blas, N, &minus, ap, 1, r, 1));
        before = rr;
        checkLib(cublasDdot(blas, N, r, 1, r, 1, &rr));
        k++;
    }
    return k;
}

int main()
{
    printf("[krylov]\n");
    findDevice();
    laplace();
    EventTimer timer;
    int *rows = upload(rowPtr), *cols = upload(colInd); double *values = upload(val), *b = upload(rhs), *x, *r, *p, *ap, *z; std::vector<double> got(N);
    for (double **v : {&x, &r, &p, &ap, &z}) checkCuda(cudaMalloc((void **)v, N * 8));
    cublasHandle_t blas; checkLib(cublasCreate(&blas));
    {
        Sparse s(rows, cols, values, p, ap);
        initVectors<<<iDivUp(N, 256), 256>>>(x, r, b); checkLaunch("initVectors");
        timer.start(); int k = plainCG(blas, s, x, r, p, ap); timer.stop();
        checkCuda(cudaMemcpy(got.data(), x, N * 8, cudaMemcpyDeviceToHost));
        printf("  %d iterations\n", k);
        report("CG with cuSPARSE and cuBLAS", residual(got.data()) < 1e-7); digest(got.data(), N * 8);
    }
    {   // managed
        int *mrows, *mcols; double *mv, *mx, *mr, *mp, *map;
        checkCuda(cudaMallocManaged((void **)&mrows, (N + 1) * 4)); checkCuda(cudaMallocManaged((void **)&mcols, colInd.size() * 4)); checkCuda(cudaMallocManaged((void **)&mv, val.size() * 8));
        for (double **v : {&mx, &mr, &mp, &map}) checkCuda(cudaMallocManaged((void **)v, N * 8));
        std::copy(rowPtr.begin(), rowPtr.end(), mrows); std::copy(colInd.begin(), colInd.end(), mcols); std::copy(val.begin(), val.end(), mv);
        for (int i = 0; i < N; i++) { mx[i] = 0; mr[i] = rhs[i]; }
        Sparse s(mrows, mcols, mv, mp, map);
        int k = plainCG(blas, s, mx, mr, mp, map);
        checkCuda(cudaDeviceSynchronize());
        printf("  %d iterations\n", k);
        report("CG in managed memory", residual(mx) < 1e-7); digest(mx, N * 8);
        for (void *v : {(void *)mrows, (void *)mcols, (void *)mv, (void *)mx, (void *)mr, (void *)mp, (void *)map}) checkCuda(cudaFree(v));
    }
    {   // captured: scalars on the GPU
        Sparse s(rows, cols, values, p, ap); cudaStream_t stream; cudaGraph_t graph; cudaGraphExec_t exec; std::vector<double> init = {0, 0, 0, 0, 0, 0, 1, 0};
        double *d = upload(init), *rr = d, *next = d + 1, *pap = d + 2, *alpha = d + 3, *minus = d + 4, *beta = d + 5, *one = d + 6, *zero = d + 7, h;   // rr, next rr, p.Ap ...
        checkCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); checkCuda(cudaDeviceSynchronize());
        initVectors<<<iDivUp(N, 256), 256, 0, stream>>>(x, r, b);
        checkLib(cublasSetStream(blas, stream)); checkLib(cusparseSetStream(s.h, stream));
        checkLib(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE)); checkLib(cusparseSetPointerMode(s.h, CUSPARSE_POINTER_MODE_DEVICE));
        checkLib(cublasDcopy(blas, N, r, 1, p, 1)); checkLib(cublasDdot(blas, N, r, 1, r, 1, rr));
        s.multiply(one, zero); checkLib(cublasDdot(blas, N, p, 1, ap, 1, pap));        // once before, so that nothing is set up while capturing
        checkCuda(cudaStreamSynchronize(stream));
        checkCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        s.multiply(one, zero);
        checkLib(cublasDdot(blas, N, p, 1, ap, 1, pap));
        divideScalars<<<1, 1, 0, stream>>>(rr, pap, alpha, minus);
        checkLib(cublasDaxpy(blas, N, alpha, p, 1, x, 1)); checkLib(cublasDaxpy(blas, N, minus, ap, 1, r, 1));
        checkLib(cublasDdot(blas, N, r, 1, r, 1, next));
        divideScalars<<<1, 1, 0, stream>>>(next, rr, beta, NULL);
        checkLib(cublasDscal(blas, N, beta, p, 1)); checkLib(cublasDaxpy(blas, N, one, r, 1, p, 1));
        checkCuda(cudaMemcpyAsync(rr, next, 8, cudaMemcpyDeviceToDevice, stream));
        checkCuda(cudaMemcpyAsync(&h, rr, 8, cudaMemcpyDeviceToHost, stream));
        checkCuda(cudaStreamEndCapture(stream, &graph));
        checkCuda(cudaGraphInstantiate(&exec, graph, NULL, NULL, 0));
        int k = 0;
        do { checkCuda(cudaGraphLaunch(exec, stream)); checkCuda(cudaStreamSynchronize(stream)); k++; } while (h > 1e-18 && k < 2000);
        checkCuda(cudaMemcpyAsync(got.data(), x, N * 8, cudaMemcpyDeviceToHost, stream)); checkCuda(cudaStreamSynchronize(stream));
        printf("  %d iterations\n", k);
        report("CG as a captured graph", residual(got.data()) < 1e-7); digest(got.data(), N * 8);
        checkCuda(cudaGraphExecDestroy(exec)); checkCuda(cudaGraphDestroy(graph));
        checkLib(cublasSetStream(blas, 0)); checkLib(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_HOST)); checkCuda(cudaStreamDestroy(stream)); cudaFree(d);
    }
    {
        cudaDeviceProp prop; checkCuda(cudaGetDeviceProperties(&prop, 0)); int perSm = 0, n = N, *iterations; double *parts, tolerance = 1e-9;
        checkCuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&perSm, cooperativeCG, 256, 0));
        int blocks = std::min(48, perSm * prop.multiProcessorCount);
        if (!prop.cooperativeLaunch) blocks = 1;
        checkCuda(cudaMalloc((void **)&parts, blocks * 8)); checkCuda(cudaMallocManaged((void **)&iterations, 4)); *iterations = 0;
        checkCuda(cudaMemcpy(r, b, N * 8, cudaMemcpyDeviceToDevice));
        void *args[] = {&rows, &cols, &values, &n, &x, &r, &p, &ap, &parts, &tolerance, &iterations};
        checkCuda(cudaLaunchCooperativeKernel((void *)cooperativeCG, dim3(blocks), dim3(256), args, 0, NULL));
        checkCuda(cudaDeviceSynchronize());
        checkCuda(cudaMemcpy(got.data(), x, N * 8, cudaMemcpyDeviceToHost));
        printf("  %d iterations\n", *iterations);
        report("CG in one cooperative launch", residual(got.data()) < 1e-7); digest(got.data(), N * 8);
        cudaFree(parts); cudaFree(iterations);
    }
    {   // preconditioned with ILU(0)
        Sparse s(rows, cols, values, p, ap); double *lu; checkCuda(cudaMalloc((void **)&lu, val.size() * 8)); checkCuda(cudaMemcpy(lu, values, val.size() * 8, cudaMemcpyDeviceToDevice));
        cusparseMatDescr_t descr; csrilu02Info_t info; int size, where; void *buffer;
        checkLib(cusparseCreateMatDescr(&descr)); checkLib(cusparseSetMatType(descr, CUSPARSE_MATRIX_TYPE_GENERAL)); checkLib(cusparseSetMatIndexBase(descr, CUSPARSE_INDEX_BASE_ZERO)); checkLib(cusparseCreateCsrilu02Info(&info));
        checkLib(cusparseDcsrilu02_bufferSize(s.h, N, (int)val.size(), descr, lu, rows, cols, info, &size)); checkCuda(cudaMalloc(&buffer, size + 1));
        checkLib(cusparseDcsrilu02_analysis(s.h, N, (int)val.size(), descr, lu, rows, cols, info, CUSPARSE_SOLVE_POLICY_USE_LEVEL, buffer));
        checkLib(cusparseDcsrilu02(s.h, N, (int)val.size(), descr, lu, rows, cols, info, CUSPARSE_SOLVE_POLICY_USE_LEVEL, buffer));
        report("ILU(0), no zero pivot", cusparseXcsrilu02_zeroPivot(s.h, info, &where) == CUSPARSE_STATUS_SUCCESS);
        cusparseSpMatDescr_t m[2]; cusparseSpSVDescr_t solve[2]; cusparseDnVecDescr_t v[3]; void *work[2]; double *y; size_t bytes; cudaMalloc((void **)&y, N * 8);
        double *vectors[3] = {r, y, z};
        for (int i = 0; i < 3; i++) checkLib(cusparseCreateDnVec(&v[i], N, vectors[i], CUDA_R_64F));
        for (int i = 0; i < 2; i++) {
            cusparseFillMode_t fill = i ? CUSPARSE_FILL_MODE_UPPER : CUSPARSE_FILL_MODE_LOWER; cusparseDiagType_t diagonal = i ? CUSPARSE_DIAG_TYPE_NON_UNIT : CUSPARSE_DIAG_TYPE_UNIT;
            checkLib(cusparseCreateCsr(&m[i], N, N, val.size(), rows, cols, lu, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
            checkLib(cusparseSpMatSetAttribute(m[i], CUSPARSE_SPMAT_FILL_MODE, &fill, sizeof fill)); checkLib(cusparseSpMatSetAttribute(m[i], CUSPARSE_SPMAT_DIAG_TYPE, &diagonal, sizeof diagonal));
            checkLib(cusparseSpSV_createDescr(&solve[i]));
            checkLib(cusparseSpSV_bufferSize(s.h, CUSPARSE_OPERATION_NON_TRANSPOSE, &s.one, m[i], v[i], v[i + 1], CUDA_R_64F, CUSPARSE_SPSV_ALG_DEFAULT, solve[i], &bytes));
            checkCuda(cudaMalloc(&work[i], bytes + 1));
            checkLib(cusparseSpSV_analysis(s.h, CUSPARSE_OPERATION_NON_TRANSPOSE, &s.one, m[i], v[i], v[i + 1], CUDA_R_64F, CUSPARSE_SPSV_ALG_DEFAULT, solve[i], work[i]));
        }
        initVectors<<<iDivUp(N, 256), 256>>>(x, r, b);
        double rr = 1, rz, before = 0, pap; int k = 0;
        for (; k < 500 && rr > 1e-18; k++) {
            for (int i = 0; i < 2; i++) checkLib(cusparseSpSV_solve(s.h, CUSPARSE_OPERATION_NON_TRANSPOSE, &s.one, m[i], v[i], v[i + 1], CUDA_R_64F, CUSPARSE_SPSV_ALG_DEFAULT, solve[i]));
            checkLib(cublasDdot(blas, N, r, 1, z, 1, &rz));
            if (k) { double beta = rz / before; checkLib(cublasDscal(blas, N, &beta, p, 1)); checkLib(cublasDaxpy(blas, N, &s.one, z, 1, p, 1)); } else checkLib(cublasDcopy(blas, N, z, 1, p, 1));
            s.multiply(&s.one, &s.zero);
            checkLib(cublasDdot(blas, N, p, 1, ap, 1, &pap));
            double alpha = rz / pap, minus = -alpha; before = rz;
            checkLib(cublasDaxpy(blas, N, &alpha, p, 1, x, 1)); checkLib(cublasDaxpy(blas, N, &minus, ap, 1, r, 1)); checkLib(cublasDdot(blas, N, r, 1, r, 1, &rr));
        }
        checkCuda(cudaMemcpy(got.data(), x, N * 8, cudaMemcpyDeviceToHost));
        printf("  %d iterations\n", k);
        report("CG preconditioned by ILU(0)", residual(got.data()) < 1e-7);
        // the triangular solver may sum in an order of its own: only the rounded solution counts
        for (double &g : got) g = rint(g * 1e3);
        digest(got.data(), N * 8);
        for (int i = 0; i < 2; i++) { cusparseSpSV_destroyDescr(solve[i]); cusparseDestroySpMat(m[i]); cudaFree(work[i]); }
        for (auto &q : v) cusparseDestroyDnVec(q);
        cusparseDestroyCsrilu02Info(info); cusparseDestroyMatDescr(descr); cudaFree(lu); cudaFree(y); cudaFree(buffer);
    }
    {   // dense: LU, Cholesky, QR
        const int n = 300; std::vector<double> a(n * n), rhs2(n), sol(n);
        for (int i = 0; i < n; i++) for (int j = 0; j <= i; j++) a[i * n + j] = a[j * n + i] = i == j ? n : frand() - .5;
        for (auto &v : rhs2) v = frand();
        cusolverDnHandle_t h; checkLib(cusolverDnCreate(&h)); double *da, *db = upload(rhs2), *work, *tau; int *info, *pivots, size, size2, bad; double one = 1;
        checkCuda(cudaMalloc((void **)&info, 4)); checkCuda(cudaMalloc((void **)&pivots, n * 4)); checkCuda(cudaMalloc((void **)&tau, n * 8)); da = upload(a);
        for (int method = 0; method < 3; method++) {
            checkCuda(cudaMemcpy(da, a.data(), n * n * 8, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy(db, rhs2.data(), n * 8, cudaMemcpyHostToDevice));
            if (method == 0) {
                checkLib(cusolverDnDgetrf_bufferSize(h, n, n, da, n, &size)); checkCuda(cudaMalloc((void **)&work, size * 8));
                checkLib(cusolverDnDgetrf(h, n, n, da, n, work, pivots, info)); checkCuda(cudaMemcpy(&bad, info, 4, cudaMemcpyDeviceToHost));
                checkLib(cusolverDnDgetrs(h, CUBLAS_OP_N, n, 1, da, n, pivots, db, n, info));
            } else if (method == 1) {
                checkLib(cusolverDnDpotrf_bufferSize(h, CUBLAS_FILL_MODE_LOWER, n, da, n, &size)); checkCuda(cudaMalloc((void **)&work, size * 8));
                checkLib(cusolverDnDpotrf(h, CUBLAS_FILL_MODE_LOWER, n, da, n, work, size, info)); checkCuda(cudaMemcpy(&bad, info, 4, cudaMemcpyDeviceToHost));
                checkLib(cusolverDnDpotrs(h, CUBLAS_FILL_MODE_LOWER, n, 1, da, n, db, n, info));
            } else {
                checkLib(cusolverDnDgeqrf_bufferSize(h, n, n, da, n, &size)); checkLib(cusolverDnDormqr_bufferSize(h, CUBLAS_SIDE_LEFT, CUBLAS_OP_T, n, 1, n, da, n, tau, db, n, &size2));
                size = std::max(size, size2); checkCuda(cudaMalloc((void **)&work, size * 8));
                checkLib(cusolverDnDgeqrf(h, n, n, da, n, tau, work, size, info)); checkCuda(cudaMemcpy(&bad, info, 4, cudaMemcpyDeviceToHost));
                checkLib(cusolverDnDormqr(h, CUBLAS_SIDE_LEFT, CUBLAS_OP_T, n, 1, n, da, n, tau, db, n, work, size, info));
                checkLib(cublasDtrsm(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, n, 1, &one, da, n, db, n));
            }
            checkCuda(cudaMemcpy(sol.data(), db, n * 8, cudaMemcpyDeviceToHost));
            double worst = 0;
            for (int i = 0; i < n; i++) { double s = rhs2[i]; for (int j = 0; j < n; j++) s -= a[j * n + i] * sol[j]; worst = fmax(worst, fabs(s)); }
            report(method == 0 ? "dense LU" : method == 1 ? "dense Cholesky" : "dense QR", bad == 0 && worst < 1e-10);
            for (double &g : sol) g = rint(g * 1e9);
            digest(sol.data(), n * 8); cudaFree(work);
        }
        cusolverDnDestroy(h); cudaFree(da); cudaFree(db); cudaFree(info); cudaFree(pivots); cudaFree(tau);
    }
    {   // sparse: Cholesky and QR on the GPU, with a reordering
        cusolverSpHandle_t h; cusparseMatDescr_t descr; int singular;
        checkLib(cusolverSpCreate(&h)); checkLib(cusparseCreateMatDescr(&descr));
        for (int method = 0; method < 2; method++) {
            checkCuda(cudaMemset(x, 0, N * 8));
            if (method == 0) checkLib(cusolverSpDcsrlsvchol(h, N, (int)val.size(), descr, values, rows, cols, b, 1e-12, 1, x, &singular));
            else checkLib(cusolverSpDcsrlsvqr(h, N, (int)val.size(), descr, values, rows, cols, b, 1e-12, 1, x, &singular));
            checkCuda(cudaMemcpy(got.data(), x, N * 8, cudaMemcpyDeviceToHost));
            report(method ? "sparse QR" : "sparse Cholesky", singular == -1 && residual(got.data()) < 1e-9);
            for (double &g : got) g = rint(g * 1e7);
            digest(got.data(), N * 8);
        }
        cusolverSpDestroy(h); cusparseDestroyMatDescr(descr);
    }
    {   // refactorisation of a tridiagonal system with other values
        const int n = 500; std::vector<int> ar(1), ac, lr(1), lc, ur(1), uc, perm(n); std::vector<double> av, lv, uv; double pivot = 0;
        for (int i = 0; i < n; i++) {
            if (i) { ac.push_back(i - 1); av.push_back(-1); double l = -1 / pivot; lc.push_back(i - 1); lv.push_back(l); pivot = 3 + l; } else pivot = 3;
            ac.push_back(i); av.push_back(3); uc.push_back(i); uv.push_back(pivot);
            if (i < n - 1) { ac.push_back(i + 1); av.push_back(-1); uc.push_back(i + 1); uv.push_back(-1); }
            ar.push_back(ac.size()); lr.push_back(lc.size()); ur.push_back(uc.size()); perm[i] = i;
        }
        cusolverRfHandle_t h; checkLib(cusolverRfCreate(&h)); checkLib(cusolverRfSetMatrixFormat(h, CUSOLVERRF_MATRIX_FORMAT_CSR, CUSOLVERRF_UNIT_DIAGONAL_ASSUMED_L));
        checkLib(cusolverRfSetupHost(n, av.size(), ar.data(), ac.data(), av.data(), lv.size(), lr.data(), lc.data(), lv.data(), uv.size(), ur.data(), uc.data(), uv.data(), perm.data(), perm.data(), h));
        checkCuda(cudaDeviceSynchronize()); checkLib(cusolverRfAnalyze(h));
        int *dr = upload(ar), *dc = upload(ac), *dp = upload(perm), *dq = upload(perm); double *dv = upload(av), *dx, *dt; std::vector<double> xs(n); int bad = 0;
        checkCuda(cudaMalloc((void **)&dx, n * 8)); checkCuda(cudaMalloc((void **)&dt, n * 8));
        for (int turn = 0; turn < 3; turn++) {
            for (auto &v : av) if (v > 0) v = 3 + turn + frand();
            checkCuda(cudaMemcpy(dv, av.data(), av.size() * 8, cudaMemcpyHostToDevice)); checkCuda(cudaMemcpy(dx, rhs.data(), n * 8, cudaMemcpyHostToDevice));
            checkLib(cusolverRfResetValues(n, av.size(), dr, dc, dv, dp, dq, h)); checkCuda(cudaDeviceSynchronize());
            checkLib(cusolverRfRefactor(h)); checkCuda(cudaDeviceSynchronize());
            checkLib(cusolverRfSolve(h, dp, dq, 1, dt, n, dx, n)); checkCuda(cudaDeviceSynchronize());
            checkCuda(cudaMemcpy(xs.data(), dx, n * 8, cudaMemcpyDeviceToHost));
            for (int i = 0; i < n; i++) { double s = rhs[i]; for (int k = ar[i]; k < ar[i + 1]; k++) s -= av[k] * xs[ac[k]]; bad += fabs(s) > 1e-9; }
            for (double &g : xs) g = rint(g * 1e9);
            digest(xs.data(), n * 8);
        }
        report("refactorisation", bad == 0);
        cusolverRfDestroy(h); for (void *m : {(void *)dr, (void *)dc, (void *)dp, (void *)dq, (void *)dv, (void *)dx, (void *)dt}) cudaFree(m);
    }
    checkLib(cublasDestroy(blas));
    for (void *m : {(void *)rows, (void *)cols, (void *)values, (void *)b, (void *)x, (void *)r, (void *)p, (void *)ap, (void *)z}) checkCuda(cudaFree(m));
    FINISH("krylov");
}
