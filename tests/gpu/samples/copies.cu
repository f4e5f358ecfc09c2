// Copies of every kind: 2D, 3D, between arrays, to the same device as a peer, default, batches, memsets of each width
#include "sample.h"

int main()
{
    const int width = 50, height = 20, deep = 6;
    std::vector<int> values = numbers<int>(width * height * deep), back(values.size());
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaPitchedPtr volume;
    CHECK(cudaMalloc3D(&volume, make_cudaExtent(width * 4, height, deep)));
    CHECK(cudaMemset3D(volume, 0x11, make_cudaExtent(width * 4, height, deep)));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(values.data(), width * 4, width, height);
    copy.dstPtr = volume;
    copy.dstPos = make_cudaPos(8, 2, 1);
    copy.extent = make_cudaExtent((width - 2) * 4, height - 2, deep - 1);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    cudaMemcpy3DParms all = {};
    all.srcPtr = volume;
    all.dstPtr = make_cudaPitchedPtr(back.data(), width * 4, width, height);
    all.extent = make_cudaExtent(width * 4, height, deep);
    all.kind = cudaMemcpyDefault;
    CHECK(cudaMemcpy3DAsync(&all, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int z = 0; z < deep; z++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++) {
                bool inside = x >= 2 && y >= 2 && z >= 1;
                int wanted = inside ? values[((z - 1) * height + y - 2) * width + x - 2] : 0x11111111;
                REQUIRE(back[(z * height + y) * width + x] == wanted);
            }
    print("3D", back);

    cudaChannelFormatDesc channel = cudaCreateChannelDesc<int>();
    cudaArray_t one, two;
    CHECK(cudaMallocArray(&one, &channel, width, height));
    CHECK(cudaMallocArray(&two, &channel, width, height));
    CHECK(cudaMemcpy2DToArrayAsync(one, 0, 0, volume.ptr, volume.pitch, width * 4, height, cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaMemcpy2DArrayToArray(two, 4, 3, one, 0, 0, (width - 1) * 4, height - 3, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy2DToArray(two, 0, 0, values.data(), width * 4, width * 4, 3, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2DFromArray(back.data(), width * 4, two, 4, 0, (width - 1) * 4, height, cudaMemcpyDeviceToHost));
    print("arrays", std::vector<int>(back.begin(), back.begin() + (width - 1)));

    int *a = upload(values), *b = allocate<int>(values.size()), *pinned;
    size_t bytes = values.size() * sizeof(int);
    CHECK(cudaMemcpyPeer(b, 0, a, 0, bytes / 2));
    CHECK(cudaMemcpyPeerAsync(b + values.size() / 2, 0, a, 0, bytes / 2, stream));
    CHECK(cudaMallocHost(&pinned, bytes));
    CHECK(cudaMemcpyAsync(pinned, b, bytes, cudaMemcpyDefault, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < values.size(); i++)
        REQUIRE(pinned[i] == values[i % (values.size() / 2)]);
    // Host to host, and device to pinned to device without a wait between
    CHECK(cudaMemcpyAsync(pinned + 10, pinned, 40, cudaMemcpyHostToHost, stream));
    CHECK(cudaMemcpyAsync(pinned + 20, a + 5, 40, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemcpyAsync(b, pinned, 120, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemsetAsync(b + 40, 0x7f, 3, stream));
    CHECK(cudaMemset2DAsync(b + 100, 400, 0x22, 36, 5, stream));
    CHECK(cudaStreamSynchronize(stream));
    print("mixed", download(b, values.size()));

    const void *sources[3] = {a, values.data(), a + 100};
    void *destinations[3] = {b + 200, b + 300, pinned + 50};
    size_t sizes[3] = {40, 60, 80}, first = 0;
    cudaMemcpyAttributes attributes = {};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    CHECK(cudaMemcpyBatchAsync(destinations, sources, sizes, 3, &attributes, &first, 1, stream));
    CHECK(cudaStreamSynchronize(stream));
    print("batch", download(b, 400));
    REQUIRE(pinned[50] == values[100] && pinned[69] == values[119]);

    // The same memory on both sides of a copy that is wider than it is far: through a third
    CHECK(cudaMemcpy2D(b, 64, a, 128, 60, 12, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy2D(back.data(), 100, b, 64, 60, 12, cudaMemcpyDeviceToHost));
    for (int y = 0; y < 12; y++)
        REQUIRE(!memcmp(&back[y * 25], &values[y * 32], 60));
    size_t available, total;
    CHECK(cudaMemGetInfo(&available, &total));
    REQUIRE(available < total);
    return 0;
}
