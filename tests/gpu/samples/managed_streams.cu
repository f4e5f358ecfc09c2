// Managed memory attached to streams: tasks of threads, done by the CPU or the GPU, side by side
#include "sample.h"
#include <mutex>
#include <thread>

__global__ void multiply(const double *matrix, const double *vector, double *out, int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n) {
        double sum = 0;
        for (int i = 0; i < n; i++)
            sum += matrix[row * n + i] * vector[i];
        out[row] = sum;
    }
}

struct Task {
    int n;
    double *matrix, *vector, *out;
};

static void run(std::vector<Task> *tasks, int first, cudaStream_t stream)
{
    for (size_t t = first; t < tasks->size(); t += 4) {
        Task &task = (*tasks)[t];
        bool by_cpu = task.n < 70;
        for (double *memory : {task.matrix, task.vector, task.out})
            CHECK(cudaStreamAttachMemAsync(stream, memory, 0, by_cpu ? cudaMemAttachHost : cudaMemAttachSingle));
        CHECK(cudaStreamSynchronize(stream));
        if (by_cpu) {
            for (int row = 0; row < task.n; row++) {
                task.out[row] = 0;
                for (int i = 0; i < task.n; i++)
                    task.out[row] += task.matrix[row * task.n + i] * task.vector[i];
            }
        } else {
            multiply<<<(task.n + 63) / 64, 64, 0, stream>>>(task.matrix, task.vector, task.out, task.n);
        }
    }
}

int main()
{
    std::vector<Task> tasks(24);
    std::vector<cudaStream_t> streams(4);
    for (auto &stream : streams)
        CHECK(cudaStreamCreate(&stream));
    for (size_t t = 0; t < tasks.size(); t++) {
        Task &task = tasks[t];
        task.n = 40 + number(uint32_t(t)) % 80;
        CHECK(cudaMallocManaged(&task.matrix, task.n * task.n * sizeof(double)));
        CHECK(cudaMallocManaged(&task.vector, task.n * sizeof(double), cudaMemAttachHost));
        CHECK(cudaMallocManaged(&task.out, task.n * sizeof(double)));
        for (int i = 0; i < task.n * task.n; i++)
            task.matrix[i] = number(uint32_t(i + t)) % 9;
        for (int i = 0; i < task.n; i++)
            task.vector[i] = i % 7;
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back(run, &tasks, i, streams[i]);
    for (auto &thread : threads)
        thread.join();
    CHECK(cudaDeviceSynchronize());
    for (Task &task : tasks) {
        for (int row = 0; row < task.n; row++) {
            double sum = 0;
            for (int i = 0; i < task.n; i++)
                sum += task.matrix[row * task.n + i] * task.vector[i];
            REQUIRE(task.out[row] == sum);
        }
        print("task", std::vector<double>(task.out, task.out + task.n));
    }
    return 0;
}
