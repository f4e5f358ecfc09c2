// Thrust: vectors, sorts, scans, reductions by key, transformations, sets, on a stream of the caller's
#include "sample.h"
#include <algorithm>
#include <numeric>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>

struct Squared {
    __host__ __device__ long long operator()(int value) const { return (long long)value * value; }
};

struct Even {
    __host__ __device__ bool operator()(int value) const { return value % 2 == 0; }
};

int main()
{
    const int n = 100000;
    std::vector<int> values = numbers<int>(n, 5000), wanted = values;
    std::sort(wanted.begin(), wanted.end());
    thrust::device_vector<int> device(values.begin(), values.end()), keys(n), sums(n);
    thrust::sort(device.begin(), device.end());
    std::vector<int> results(n);
    thrust::copy(device.begin(), device.end(), results.begin());
    REQUIRE(results == wanted);
    print("sorted", results);
    auto ends = thrust::reduce_by_key(device.begin(), device.end(), thrust::counting_iterator<int>(0), keys.begin(), sums.begin());
    int groups = ends.first - keys.begin();
    results.resize(groups);
    thrust::copy(sums.begin(), sums.begin() + groups, results.begin());
    print("by key", results);
    long long squares = thrust::transform_reduce(device.begin(), device.end(), Squared(), 0LL, thrust::plus<long long>());
    long long wanted_squares = 0;
    for (int value : values)
        wanted_squares += (long long)value * value;
    REQUIRE(squares == wanted_squares);

    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    thrust::device_vector<int> scanned(n);
    thrust::inclusive_scan(thrust::cuda::par.on(stream), device.begin(), device.end(), scanned.begin());
    CHECK(cudaStreamSynchronize(stream));
    REQUIRE(scanned[n - 1] == std::accumulate(values.begin(), values.end(), 0));
    thrust::device_vector<int> even(n);
    int evens = thrust::copy_if(device.begin(), device.end(), even.begin(), Even()) - even.begin();
    REQUIRE(evens == std::count_if(values.begin(), values.end(), Even()));
    int distinct = thrust::unique(device.begin(), device.end()) - device.begin();
    printf("%d groups, %d even, %d distinct, squares %lld\n", groups, evens, distinct, squares);

    thrust::device_vector<float> floats(n), order(n);
    thrust::transform(scanned.begin(), scanned.end(), thrust::counting_iterator<int>(0), floats.begin(), thrust::minus<float>());
    thrust::sequence(order.begin(), order.end());
    thrust::stable_sort_by_key(floats.begin(), floats.end(), order.begin(), thrust::greater<float>());
    std::vector<float> ordered(n);
    thrust::copy(order.begin(), order.end(), ordered.begin());
    print("order", ordered);
    return 0;
}
