// Objects with virtual functions, built on the device by new, and in place in memory of the host's
#include "sample.h"
#include <new>

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual ~Shape() {}
};

struct Square : Shape {
    float side;
    __device__ Square(float s) : side(s) {}
    __device__ float area() const override { return side * side; }
};

struct Triangle : Shape {
    float base, height;
    __device__ Triangle(float b, float h) : base(b), height(h) {}
    __device__ float area() const override { return base * height / 2; }
};

__global__ void build(Shape **shapes, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        shapes[i] = i % 3 ? static_cast<Shape *>(new Square(i)) : new Triangle(i, 4);
}

__global__ void build_in_place(Square *squares) { new (&squares[threadIdx.x]) Square(threadIdx.x + 0.5f); }

__global__ void measure(Shape **shapes, const Square *squares, float *areas, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const Shape *other = &squares[i % 64];
        areas[i] = shapes[i]->area() + other->area();
    }
}

__global__ void destroy(Shape **shapes, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        delete shapes[i];
}

int main()
{
    const int n = 500;
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
    Shape **shapes = allocate<Shape *>(n);
    void *squares;
    CHECK(cudaMalloc(&squares, 64 * sizeof(Square)));
    float *areas = allocate<float>(n);
    build<<<(n + 127) / 128, 128>>>(shapes, n);
    build_in_place<<<1, 64>>>(static_cast<Square *>(squares));
    measure<<<(n + 127) / 128, 128>>>(shapes, static_cast<Square *>(squares), areas, n);
    destroy<<<(n + 127) / 128, 128>>>(shapes, n);
    std::vector<float> results = download(areas, n);
    for (int i = 0; i < n; i++)
        REQUIRE(results[i] == (i % 3 ? float(i) * i : i * 2.0f) + (i % 64 + 0.5f) * (i % 64 + 0.5f));
    print("areas", results);
    return 0;
}
