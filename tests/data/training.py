"""A small training loop whose kernels are all Triton's: a network of two layers learns a function of its input.

The loop has the usual faults: it uploads the same table at each step, reads the loss at each step, and copies
from pageable memory. tests/data/training.bin is its trace on an H200, made by

    cutrace record -o training.bin python3 training.py
    cutrace replay --profile -o timed.bin training.bin
    cutrace redact timed.bin -o redacted.bin
    cutrace pack redacted.bin -o tests/data/training.bin
"""

import numpy
import torch
import triton
import triton.language as tl

BATCH, INPUTS, HIDDEN, STEPS, RATE = 64, 32, 64, 12, 0.05


@triton.jit
def linear(x, w, y, K: tl.constexpr, N: tl.constexpr, RELU: tl.constexpr):
    """A row of y = x @ w, with ReLU for the first layer."""
    row, n = tl.program_id(0), tl.arange(0, N)
    sums = tl.zeros([N], tl.float32)
    for k in range(K):
        sums += tl.load(x + row * K + k) * tl.load(w + k * N + n)
    tl.store(y + row * N + n, tl.maximum(sums, 0.0) if RELU else sums)


@triton.jit
def loss_gradient(y, target, scale, gradient, loss, M: tl.constexpr, N: tl.constexpr):
    """The mean square error, and its gradient by y; each column has a scale."""
    at = tl.arange(0, M * N)
    difference = (tl.load(y + at) - tl.load(target + at)) * tl.load(scale + at % N)
    tl.store(gradient + at, 2.0 * difference / (M * N))
    tl.store(loss, tl.sum(difference * difference, 0) / (M * N))


@triton.jit
def weight_gradient(x, g, out, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    """A row of out = x.T @ g."""
    k, n = tl.program_id(0), tl.arange(0, N)
    sums = tl.zeros([N], tl.float32)
    for m in range(M):
        sums += tl.load(x + m * K + k) * tl.load(g + m * N + n)
    tl.store(out + k * N + n, sums)


@triton.jit
def input_gradient(g, w, h, out, K: tl.constexpr, N: tl.constexpr):
    """A row of out = g @ w.T, where the ReLU of h let something through."""
    row, k = tl.program_id(0), tl.arange(0, K)
    sums = tl.zeros([K], tl.float32)
    for n in range(N):
        sums += tl.load(g + row * N + n) * tl.load(w + k * N + n)
    tl.store(out + row * K + k, tl.where(tl.load(h + row * K + k) > 0.0, sums, 0.0))


@triton.jit
def descend(w, g, rate, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(w + at, tl.load(w + at, at < COUNT) - rate * tl.load(g + at, at < COUNT), at < COUNT)


def upload(array):
    tensor = torch.empty(array.shape, dtype=torch.float32, device="cuda")
    return tensor.copy_(torch.from_numpy(array))


def main():
    random = numpy.random.default_rng(1)
    normal = lambda *shape: random.standard_normal(shape, dtype=numpy.float32)
    first, second = upload(normal(INPUTS, HIDDEN) / 6), upload(normal(HIDDEN, INPUTS) / 8)
    table = numpy.linspace(0.5, 1.5, 1 << 16, dtype=numpy.float32)
    hidden, gh = (torch.empty(BATCH, HIDDEN, device="cuda") for _ in range(2))
    y, gy = (torch.empty(BATCH, INPUTS, device="cuda") for _ in range(2))
    g1, g2 = torch.empty_like(first), torch.empty_like(second)
    loss = torch.empty(1, device="cuda")
    for step in range(STEPS):
        with torch.cuda.nvtx.range("step"):
            with torch.cuda.nvtx.range("input"):
                inputs = normal(BATCH, INPUTS)
                x, target, scale = upload(inputs), upload(numpy.sin(inputs)), upload(table)
            with torch.cuda.nvtx.range("forward"):
                linear[(BATCH,)](x, first, hidden, INPUTS, HIDDEN, True)
                linear[(BATCH,)](hidden, second, y, HIDDEN, INPUTS, False)
                loss_gradient[(1,)](y, target, scale, gy, loss, BATCH, INPUTS)
            with torch.cuda.nvtx.range("backward"):
                weight_gradient[(HIDDEN,)](hidden, gy, g2, BATCH, HIDDEN, INPUTS)
                input_gradient[(BATCH,)](gy, second, hidden, gh, HIDDEN, INPUTS)
                weight_gradient[(INPUTS,)](x, gh, g1, BATCH, INPUTS, HIDDEN)
            with torch.cuda.nvtx.range("optimizer"):
                for weights, gradient in [(first, g1), (second, g2)]:
                    count = weights.numel()
                    descend[(triton.cdiv(count, 256),)](weights, gradient, RATE, count, 256)
            print(f"step {step}: loss {loss.item():.4f}")


main()
