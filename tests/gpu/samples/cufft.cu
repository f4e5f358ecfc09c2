// cuFFT: 1D, 2D and 3D, real and complex, batched and strided, prime lengths, on a stream and in a graph
// nvcc: -lcufft
#include "sample.h"
#include <cufft.h>

int main()
{
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    std::vector<float> values = numbers(1 << 17, 100);
    float *in = upload(values);
    cufftComplex *out = allocate<cufftComplex>(1 << 16);
    float *again = allocate<float>(1 << 16);

    for (int n : {1024, 1000, 1009, 1 << 16}) {
        cufftHandle forth, back;
        ZERO(cufftPlan1d(&forth, n, CUFFT_R2C, 1));
        ZERO(cufftPlan1d(&back, n, CUFFT_C2R, 1));
        ZERO(cufftSetStream(forth, stream));
        ZERO(cufftSetStream(back, stream));
        ZERO(cufftExecR2C(forth, in, out));
        CHECK(cudaStreamSynchronize(stream));
        print("forth", download(out, n / 2 + 1));
        ZERO(cufftExecC2R(back, out, again));
        CHECK(cudaStreamSynchronize(stream));
        std::vector<float> results = download(again, n);
        for (int i = 0; i < n; i++)
            REQUIRE(fabsf(results[i] / n - values[i]) < 0.01f);
        ZERO(cufftDestroy(forth));
        ZERO(cufftDestroy(back));
    }

    cufftHandle plan;
    ZERO(cufftPlan2d(&plan, 64, 48, CUFFT_C2C));
    ZERO(cufftExecC2C(plan, reinterpret_cast<cufftComplex *>(in), out, CUFFT_FORWARD));
    print("2D", download(out, 64 * 48));
    ZERO(cufftDestroy(plan));
    ZERO(cufftPlan3d(&plan, 16, 16, 20, CUFFT_R2C));
    ZERO(cufftExecR2C(plan, in, out));
    print("3D", download(out, 16 * 16 * 11));
    ZERO(cufftDestroy(plan));

    int length = 128, embed[] = {200};
    size_t work;
    ZERO(cufftCreate(&plan));
    ZERO(cufftSetAutoAllocation(plan, 0));
    ZERO(cufftMakePlanMany(plan, 1, &length, embed, 2, 400, embed, 1, 200, CUFFT_C2C, 20, &work));
    void *area;
    CHECK(cudaMalloc(&area, work + 1));
    ZERO(cufftSetWorkArea(plan, area));
    ZERO(cufftSetStream(plan, stream));
    CHECK(cudaMemset(out, 0, sizeof(cufftComplex) << 16));
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    ZERO(cufftExecC2C(plan, reinterpret_cast<cufftComplex *>(in), out, CUFFT_INVERSE));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    print("many, by graph", download(out, 20 * 200));
    std::vector<double> doubles = numbers<double>(2 * 4096);
    auto precise = reinterpret_cast<cufftDoubleComplex *>(upload(doubles));
    cufftHandle exact;
    ZERO(cufftPlan1d(&exact, 4096, CUFFT_Z2Z, 1));
    ZERO(cufftExecZ2Z(exact, precise, precise, CUFFT_FORWARD));
    print("double", download(precise, 4096));
    return 0;
}
