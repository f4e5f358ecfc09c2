# CuPy: stream capture, events, pinned staging, peer of streams, asynchronous pools, callbacks from the stream
import cupy as cp
import numpy as np

stream, other = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
x = cp.zeros(1000, dtype=cp.float32)
kernel = cp.RawKernel(r"""extern "C" __global__ void more(float *x, int n) { int i = blockDim.x * blockIdx.x + threadIdx.x; if (i < n) x[i] += i; }""", "more")
kernel((4,), (256,), (x, 1000))
# The other streams do not wait for the default one.
cp.cuda.Stream.null.synchronize()
with stream:
    stream.begin_capture()
    kernel((4,), (256,), (x, 1000))
    kernel((4,), (256,), (x, 1000))
    graph = stream.end_capture()
for _ in range(5):
    graph.launch(stream)
called = []
stream.launch_host_func(lambda n: called.append(n), 5)
done = stream.record()
other.wait_event(done)
memory = cp.cuda.alloc_pinned_memory(4000)
host = np.frombuffer(memory, np.float32, 1000)
with other:
    x.get(out=host, stream=other, blocking=False)
other.synchronize()
host += 1
with other:
    y = cp.empty(1000, dtype=cp.float32)
    y.set(host, stream=other)
other.synchronize()
cp.cuda.set_allocator(cp.cuda.MemoryAsyncPool().malloc)
z = cp.concatenate([y, x]) * 2
end = other.record()
end.synchronize()
print(called, float(host.sum()), float(z.sum()), cp.cuda.get_elapsed_time(done, end) >= 0)
