// The same product in managed memory of many sizes, with every advice, and with the ways that do without: copies from pageable and
// from pinned memory, and pinned memory that the kernel reads itself
#include "sample.h"

__global__ void multiply(const float *a, const float *b, float *c, int n)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    if (row >= n || column >= n)
        return;
    for (int k = 0; k < n; k++)
        sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

enum Way { plain, hinted, prefetched, attached, pageable, pinned, mapped, ways };

int main()
{
    cudaStream_t stream;
    cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
    CHECK(cudaStreamCreate(&stream));
    for (int n : {16, 64, 200, 512})
        for (int way = plain; way < ways; way++) {
            const size_t count = size_t(n) * n, bytes = count * sizeof(float);
            float *at[3], *there[3];
            for (int i = 0; i < 3; i++) {
                if (way <= attached)
                    CHECK(cudaMallocManaged(&at[i], bytes, way == attached ? cudaMemAttachHost : cudaMemAttachGlobal));
                else if (way == pageable)
                    at[i] = static_cast<float *>(malloc(bytes));
                else
                    CHECK(cudaHostAlloc(&at[i], bytes, way == mapped ? cudaHostAllocMapped : cudaHostAllocDefault));
                there[i] = way == pageable || way == pinned ? allocate<float>(count) : at[i];
            }
            if (way == hinted) {
                CHECK(cudaMemAdvise(at[0], bytes, cudaMemAdviseSetReadMostly, device));
                CHECK(cudaMemAdvise(at[1], bytes, cudaMemAdviseSetAccessedBy, device));
                CHECK(cudaMemAdvise(at[2], bytes, cudaMemAdviseSetPreferredLocation, host));
            }
            for (int turn = 0; turn < 3; turn++) {
                for (size_t i = 0; i < count; i++) {
                    at[0][i] = number(i + turn) % 10;
                    at[1][i] = number(i * 3 + way) % 10;
                }
                for (int i = 0; i < 3; i++) {
                    if (way == prefetched)
                        CHECK(cudaMemPrefetchAsync(at[i], bytes, device, 0, stream));
                    if (way == attached)
                        CHECK(cudaStreamAttachMemAsync(stream, at[i]));
                    if (way >= pageable && way <= pinned && i < 2)
                        CHECK(cudaMemcpyAsync(there[i], at[i], bytes, cudaMemcpyHostToDevice, stream));
                }
                dim3 block(16, 16), grid((n + 15) / 16, (n + 15) / 16);
                multiply<<<grid, block, 0, stream>>>(there[0], there[1], there[2], n);
                if (way == pageable || way == pinned)
                    CHECK(cudaMemcpyAsync(at[2], there[2], bytes, cudaMemcpyDeviceToHost, stream));
                if (way == prefetched)
                    CHECK(cudaMemPrefetchAsync(at[2], bytes, host, 0, stream));
                if (way == attached)
                    for (float *one : at)
                        CHECK(cudaStreamAttachMemAsync(stream, one, 0, cudaMemAttachHost));
                CHECK(cudaStreamSynchronize(stream));
                float sum = 0;
                for (int k = 0; k < n; k++)
                    sum += at[0][(n - 1) * n + k] * at[1][k * n + 1];
                REQUIRE(at[2][(n - 1) * n + 1] == sum);
                if (turn == 2)
                    print("product", std::vector<float>(at[2], at[2] + count));
            }
            for (int i = 0; i < 3; i++) {
                if (there[i] != at[i])
                    CHECK(cudaFree(there[i]));
                if (way <= attached)
                    CHECK(cudaFree(at[i]));
                else if (way == pageable)
                    free(at[i]);
                else
                    CHECK(cudaFreeHost(at[i]));
            }
        }
    return 0;
}
