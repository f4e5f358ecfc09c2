// Preconditioned CG and BiCGStab on a 2D Poisson-like matrix (CSR), three ways: CG with a conditional WHILE node that decides
// on the GPU, CG with an iteration graph launched from the CPU until a mapped residual is small (with updates of parameters
// between), and BiCGStab by recapturing and cudaGraphExecUpdate. All reductions have a fixed order.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
    cudaGetErrorString(e_)); exit(2); } } while (0)

constexpr int NX = 192, NY = 160, N = NX * NY, T = 256, B = 64;

struct Csr { const int *rows, *cols; const double *values; };

__global__ void spmv(Csr a, const double *x, double *y) {
    for (int i = blockIdx.x * T + threadIdx.x; i < N; i += gridDim.x * T) {
        double s = 0;
        for (int k = a.rows[i]; k < a.rows[i + 1]; k++) s += a.values[k] * x[a.cols[k]];
        y[i] = s;
    }
}
__device__ double block_sum(double v) {
    __shared__ double s[T];
    s[threadIdx.x] = v;
    __syncthreads();
    for (int d = T / 2; d; d /= 2) { if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d]; __syncthreads(); }
    double r = s[0];
    __syncthreads();
    return r;
}
__global__ void dot_parts(const double *x, const double *y, double *parts) {
    double v = 0;
    for (int i = blockIdx.x * T + threadIdx.x; i < N; i += B * T) v += x[i] * y[i];
    v = block_sum(v);
    if (threadIdx.x == 0) parts[blockIdx.x] = v;
}
__global__ void dot_finish(const double *parts, double *out) {
    double v = block_sum(threadIdx.x < B ? parts[threadIdx.x] : 0.0);
    if (threadIdx.x == 0) *out = v;
}
// scalars: 0 rz, 1 pAp, 2 new rz, 3 rr, 4 iterations
__global__ void step_xr(double *x, double *r, const double *p, const double *ap, const double *s) {
    double alpha = s[0] / s[1];
    for (int i = blockIdx.x * T + threadIdx.x; i < N; i += gridDim.x * T) { x[i] += alpha * p[i]; r[i] -= alpha * ap[i]; }
}
__global__ void precondition(const double *diagonal, const double *r, double *z, double omega) {
    for (int i = blockIdx.x * T + threadIdx.x; i < N; i += gridDim.x * T) z[i] = omega * r[i] / diagonal[i];
}
__global__ void step_p(double *p, const double *z, const double *s) {
    double beta = s[2] / s[0];
    for (int i = blockIdx.x * T + threadIdx.x; i < N; i += gridDim.x * T) p[i] = z[i] + beta * p[i];
}
__global__ void finish_iteration(double *s, volatile double *mapped) {
    s[0] = s[2]; s[4] += 1;
    mapped[0] = s[3];
    __threadfence_system();
    mapped[1] = s[4];
}
__global__ void decide(cudaGraphConditionalHandle handle, const double *s, double tolerance) {
    cudaGraphSetConditional(handle, s[3] > tolerance && s[4] < 400 ? 1 : 0);
}
__global__ void combine(double *out, const double *x, const double *y, const double *z, const double *s, int what) {
    // BiCGStab; s: 0 rho, 1 r0.v, 2 t.s, 3 t.t, 4 new rho, 5 rr
    double alpha = s[0] / s[1];
    for (int i = blockIdx.x * T + threadIdx.x; i < N; i += gridDim.x * T) {
        double omega = what >= 1 ? s[2] / s[3] : 0;
        if (what == 0) out[i] = x[i] - alpha * y[i];                                // s = r - alpha v
        else if (what == 1) out[i] += alpha * x[i] + omega * y[i];                  // x += alpha p + omega s
        else if (what == 2) out[i] = x[i] - omega * y[i];                           // r = s - omega t
        else out[i] = x[i] + (s[4] / s[0]) * (alpha / omega) * (out[i] - omega * y[i]); // p = r + beta (p - omega v)
    }
}
__global__ void shift_rho(double *s, volatile double *mapped) { s[0] = s[4]; mapped[2] = s[5]; }

static Csr a;
static double *diagonal, *b, *x, *r, *z, *p, *ap, *v, *t, *parts, *parts2, *scalars, *mapped, *mapped_dev;
static std::vector<int> rows, cols; static std::vector<double> values, rhs;

static void dot(cudaStream_t s, const double *u, const double *w, double *out, double *scratch) {
    dot_parts<<<B, T, 0, s>>>(u, w, scratch);
    dot_finish<<<1, T, 0, s>>>(scratch, out);
}
static double residual(const double *solution) {
    double worst = 0;
    for (int i = 0; i < N; i++) {
        double s = rhs[i];
        for (int k = rows[i]; k < rows[i + 1]; k++) s -= values[k] * solution[cols[k]];
        worst = fmax(worst, fabs(s));
    }
    return worst;
}
static void start_cg(cudaStream_t s, double omega) {
    CK(cudaMemsetAsync(x, 0, N * sizeof(double), s));
    CK(cudaMemcpyAsync(r, b, N * sizeof(double), cudaMemcpyDeviceToDevice, s));
    CK(cudaMemsetAsync(scalars, 0, 8 * sizeof(double), s));
    precondition<<<B, T, 0, s>>>(diagonal, r, z, omega);
    CK(cudaMemcpyAsync(p, z, N * sizeof(double), cudaMemcpyDeviceToDevice, s));
    dot(s, r, z, scalars, parts);
    dot(s, r, r, scalars + 3, parts);
}
// One iteration; a fork into a second stream for the two last products.
static void iterate_cg(cudaStream_t s, cudaStream_t side, cudaEvent_t fork, cudaEvent_t join, double omega) {
    spmv<<<B, T, 0, s>>>(a, p, ap);
    dot(s, p, ap, scalars + 1, parts);
    step_xr<<<B, T, 0, s>>>(x, r, p, ap, scalars);
    CK(cudaEventRecord(fork, s));
    CK(cudaStreamWaitEvent(side, fork, 0));
    dot(side, r, r, scalars + 3, parts2);
    CK(cudaEventRecord(join, side));
    precondition<<<B, T, 0, s>>>(diagonal, r, z, omega);
    dot(s, r, z, scalars + 2, parts);
    step_p<<<B, T, 0, s>>>(p, z, scalars);
    CK(cudaStreamWaitEvent(s, join, 0));
    finish_iteration<<<1, 1, 0, s>>>(scalars, mapped_dev);
}
static void iterate_bicg(cudaStream_t s, const double *r0, int blocks) {
    spmv<<<blocks, T, 0, s>>>(a, p, v);
    dot(s, r0, v, scalars + 1, parts);
    combine<<<blocks, T, 0, s>>>(z, r, v, nullptr, scalars, 0);
    spmv<<<blocks, T, 0, s>>>(a, z, t);
    dot(s, t, z, scalars + 2, parts);
    dot(s, t, t, scalars + 3, parts);
    combine<<<blocks, T, 0, s>>>(x, p, z, nullptr, scalars, 1);
    combine<<<blocks, T, 0, s>>>(r, z, t, nullptr, scalars, 2);
    dot(s, r0, r, scalars + 4, parts);
    dot(s, r, r, scalars + 5, parts);
    combine<<<blocks, T, 0, s>>>(p, r, v, nullptr, scalars, 3);
    shift_rho<<<1, 1, 0, s>>>(scalars, mapped_dev);
}
static uint64_t fold(uint64_t h, const void *data, size_t n) {
    for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)data)[i]) * 1099511628211ull;
    return h;
}
static double *upload(const void *from, size_t bytes) { void *to; CK(cudaMalloc(&to, bytes)); CK(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice)); return (double *)to; }

int main() {
    for (int i = 0; i < N; i++) {
        int px = i % NX, py = i / NX;
        double d = 0.05 + 0.001 * (i % 7);
        rows.push_back(cols.size());
        auto put = [&](bool there, int j, double w) { if (there) { cols.push_back(j); values.push_back(-w); } d += w; };
        put(py > 0, i - NX, 1.0); put(px > 0, i - 1, 1.5);
        size_t at = cols.size(); cols.push_back(i); values.push_back(0);
        put(px < NX - 1, i + 1, 1.5); put(py < NY - 1, i + NX, 1.0);
        values[at] = d;
        rhs.push_back(sin(0.05 * px) * cos(0.07 * py) + 0.01 * (i % 13));
    }
    rows.push_back(cols.size());
    std::vector<double> diag(N);
    for (int i = 0; i < N; i++) for (int k = rows[i]; k < rows[i + 1]; k++) if (cols[k] == i) diag[i] = values[k];
    a = Csr{(int *)upload(rows.data(), rows.size() * 4), (int *)upload(cols.data(), cols.size() * 4), upload(values.data(), values.size() * 8)};
    diagonal = upload(diag.data(), N * 8); b = upload(rhs.data(), N * 8);
    for (double **q : {&x, &r, &z, &p, &ap, &v, &t}) { CK(cudaMalloc(q, N * 8)); CK(cudaMemset(*q, 0, N * 8)); }
    CK(cudaMalloc(&parts, B * 8)); CK(cudaMalloc(&parts2, B * 8)); CK(cudaMalloc(&scalars, 64));
    CK(cudaHostAlloc(&mapped, 64, cudaHostAllocMapped)); memset(mapped, 0, 64);
    CK(cudaHostGetDevicePointer(&mapped_dev, mapped, 0));
    cudaStream_t s, side; cudaEvent_t fork, join;
    CK(cudaStreamCreate(&s)); CK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    CK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming)); CK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    const double tolerance = 1e-14;
    std::vector<double> solution(N); uint64_t sum = 14695981039346656037ull; bool good = true; int iterations[3];

    {   // 1. The loop on the GPU: a child graph for the start, then a WHILE node whose body is captured.
        cudaGraph_t begin, whole; cudaGraphNode_t begun, loop; cudaGraphConditionalHandle handle; cudaGraphExec_t exec;
        CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        start_cg(s, 1.0);
        CK(cudaStreamEndCapture(s, &begin));
        CK(cudaGraphCreate(&whole, 0));
        CK(cudaGraphAddChildGraphNode(&begun, whole, nullptr, 0, begin));
        CK(cudaGraphConditionalHandleCreate(&handle, whole, 1, cudaGraphCondAssignDefault));
        cudaGraphNodeParams params = {};
        params.type = cudaGraphNodeTypeConditional;
        params.conditional.handle = handle; params.conditional.type = cudaGraphCondTypeWhile; params.conditional.size = 1;
        CK(cudaGraphAddNode(&loop, whole, &begun, nullptr, 1, &params));
        cudaGraph_t body = params.conditional.phGraph_out[0];
        CK(cudaStreamBeginCaptureToGraph(s, body, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed));
        iterate_cg(s, side, fork, join, 1.0);
        decide<<<1, 1, 0, s>>>(handle, scalars, tolerance);
        CK(cudaStreamEndCapture(s, nullptr));
        CK(cudaGraphInstantiate(&exec, whole, 0));
        for (int again = 0; again < 2; again++) {
            CK(cudaGraphLaunch(exec, s));
            CK(cudaMemcpyAsync(solution.data(), x, N * 8, cudaMemcpyDeviceToHost, s));
            CK(cudaStreamSynchronize(s));
            iterations[0] = (int)((volatile double *)mapped)[1];
            sum = fold(sum, solution.data(), N * 8);
        }
        good &= residual(solution.data()) < 1e-5;
        CK(cudaGraphExecDestroy(exec)); CK(cudaGraphDestroy(begin)); CK(cudaGraphDestroy(whole));
    }
    {   // 2. The loop on the CPU; omega of the preconditioner is changed in the executable graph every few iterations, and set in two nodes.
        cudaGraph_t graph; cudaGraphExec_t exec; size_t count = 0;
        CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
        iterate_cg(s, side, fork, join, 2.0);
        CK(cudaStreamEndCapture(s, &graph));
        CK(cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagUseNodePriority));
        CK(cudaGraphGetNodes(graph, nullptr, &count));
        std::vector<cudaGraphNode_t> nodes(count);
        CK(cudaGraphGetNodes(graph, nodes.data(), &count));
        cudaGraphNode_t pre = nullptr, step = nullptr; cudaKernelNodeParams pre_params, step_params; cudaFunction_t fpre, fstep;
        CK(cudaGetFuncBySymbol(&fpre, (const void *)precondition)); CK(cudaGetFuncBySymbol(&fstep, (const void *)step_xr));
        for (auto n : nodes) {
            cudaGraphNodeType type; CK(cudaGraphNodeGetType(n, &type));
            if (type != cudaGraphNodeTypeKernel) continue;
            cudaKernelNodeParams k; CK(cudaGraphKernelNodeGetParams(n, &k));
            if (k.func == (void *)precondition || k.func == (void *)fpre) { pre = n; pre_params = k; }
            if (k.func == (void *)step_xr || k.func == (void *)fstep) { step = n; step_params = k; }
        }
        if (!pre || !step) { printf("nodes not found among %zu\n", count); return 1; }
        start_cg(s, 2.0);
        CK(cudaStreamSynchronize(s));
        int done = 0; double omega = 2.0;
        while (done < 400) {
            if (done % 8 == 4) {
                void *args[] = {&diagonal, &r, &z, &omega};     // the same omega from other memory, another grid
                cudaKernelNodeParams k = pre_params;
                k.kernelParams = args; k.gridDim = dim3(32 + done % 64); k.blockDim = dim3(T);
                CK(cudaGraphExecKernelNodeSetParams(exec, pre, &k));
                k = step_params; void *args2[] = {&x, &r, &p, &ap, &scalars}; k.kernelParams = args2; k.gridDim = dim3(17 + done % 50);
                CK(cudaGraphExecKernelNodeSetParams(exec, step, &k));
            }
            if (done % 16 == 15) { CK(cudaGraphNodeSetEnabled(exec, pre, 0)); CK(cudaGraphNodeSetEnabled(exec, pre, 1)); }
            CK(cudaGraphLaunch(exec, s));
            done++;
            cudaError_t q;
            while ((q = cudaStreamQuery(s)) == cudaErrorNotReady) { }
            CK(q);
            if (((volatile double *)mapped)[0] <= tolerance) break;
        }
        iterations[1] = done;
        good &= done == (int)mapped[1];
        CK(cudaMemcpy(solution.data(), x, N * 8, cudaMemcpyDeviceToHost));
        sum = fold(sum, solution.data(), N * 8);
        good &= residual(solution.data()) < 1e-5;
        CK(cudaGraphExecDestroy(exec)); CK(cudaGraphDestroy(graph));
    }
    {   // 3. BiCGStab; the graph is captured anew before every fifth iteration with another grid and updated in place.
        cudaGraphExec_t exec = nullptr; int done = 0;
        CK(cudaMemsetAsync(x, 0, N * 8, s));
        CK(cudaMemcpyAsync(r, b, N * 8, cudaMemcpyDeviceToDevice, s));
        CK(cudaMemcpyAsync(p, b, N * 8, cudaMemcpyDeviceToDevice, s));
        dot(s, b, r, scalars, parts);
        for (; done < 400; done++) {
            if (done % 5 == 0) {
                cudaGraph_t graph; cudaGraphExecUpdateResultInfo info;
                CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
                iterate_bicg(s, b, 40 + done % 3 * 12);
                CK(cudaStreamEndCapture(s, &graph));
                if (!exec) CK(cudaGraphInstantiate(&exec, graph, 0));
                else if (cudaGraphExecUpdate(exec, graph, &info) != cudaSuccess) { printf("update: %d\n", (int)info.result); return 1; }
                CK(cudaGraphDestroy(graph));
                CK(cudaGraphUpload(exec, s));
            }
            CK(cudaGraphLaunch(exec, s));
            CK(cudaStreamSynchronize(s));
            if (((volatile double *)mapped)[2] <= tolerance) break;
        }
        iterations[2] = done + 1;
        CK(cudaMemcpy(solution.data(), x, N * 8, cudaMemcpyDeviceToHost));
        sum = fold(sum, solution.data(), N * 8);
        good &= residual(solution.data()) < 1e-5;
        CK(cudaGraphExecDestroy(exec));
    }
    CK(cudaDeviceSynchronize());
    printf("cggraph: iterations %d %d %d checksum %016llx %s\n", iterations[0], iterations[1], iterations[2], (unsigned long long)sum, good ? "ok" : "WRONG");
    CK(cudaFreeHost(mapped));
    for (double *q : {x, r, z, p, ap, v, t, parts, parts2, scalars, diagonal, b}) CK(cudaFree(q));
    return !good;
}
