struct Span {
    const int *first, *last;
};

struct Job {
    int scale;
    Span spans[2];
};

struct __attribute__((packed)) Tight {
    int scale;
    const int *first;
    int count;
};

extern "C" {
__device__ int basin[16];
__constant__ Span shelf[2];
}

static __device__ long long sum(Span span)
{
    long long total = 0;
    for (const int *at = span.first; at != span.last; at++)
        total += *at;
    return total;
}

// A pair of iterators, the last of which is the end of its memory
extern "C" __global__ void sum_span(const int *first, const int *last, long long *out)
{
    *out = sum(Span{first, last});
}

// Pairs in memory, and in constant memory
extern "C" __global__ void sum_spans(const Span *spans, int count, long long *out)
{
    long long total = 0;
    for (int i = 0; i < count; i++)
        total += sum(spans[i]);
    *out = total + sum(shelf[0]) + sum(shelf[1]);
}

// Pairs in a struct, far behind its first words
extern "C" __global__ void sum_job(Job job, long long *out)
{
    *out = job.scale * (sum(job.spans[0]) + sum(job.spans[1]));
}

// An address at 4 bytes
extern "C" __global__ void sum_tight(Tight tight, long long *out)
{
    *out = tight.scale * sum(Span{tight.first, tight.first + tight.count});
}

// Tells the host where a variable begins and ends
extern "C" __global__ void name_basin(Span *out)
{
    *out = Span{basin, basin + 16};
}

// Adds to each number in a range
extern "C" __global__ void add_to(int *first, int count, int value)
{
    for (int i = 0; i < count; i++)
        first[i] += value;
}
