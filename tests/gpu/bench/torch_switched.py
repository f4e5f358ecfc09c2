# A small network in PyTorch whose recording is switched on and off in turn, every 60 steps: what recording costs, told from what a
# host does by itself, by which whole runs differ by a third. Prints the rate while recording is on by that while it is off, the
# median of as many as argument 1 says and the range in which that lies with 95 percent; and the same of "off" by "off".
# Arguments 2 and on: the cutrace that switches. For scripts/bench --switched, which preloads the recorder.
import os
import random
import statistics
import subprocess
import sys
import time

import torch

STEPS = 60
layers = [layer for _ in range(8) for layer in (torch.nn.Linear(256, 256), torch.nn.GELU())]
network = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
rows = torch.randn(64, 256, device="cuda")


def steps(count):
    for _ in range(count):
        optimizer.zero_grad(set_to_none=True)
        network(rows).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()


def rate(switch):
    subprocess.run([*sys.argv[2:], switch, str(os.getpid())], check=True, stdout=subprocess.DEVNULL)
    steps(STEPS // 6)
    began = time.perf_counter()
    steps(STEPS)
    return STEPS / (time.perf_counter() - began)


def told(ratios):
    medians = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(1000))
    return f"{statistics.median(ratios):.3f} ({medians[25]:.3f} to {medians[975]:.3f})"


steps(100)
pairs = int(sys.argv[1])
rates = [rate("on" if number % 2 else "off") for number in range(2 * pairs + 1)]
beside = lambda number, distance: 2 * rates[number] / (rates[number - distance] + rates[number + distance])
print("on by off", told([beside(number, 1) for number in range(1, 2 * pairs, 2)]),
      "off by off", told([beside(number, 2) for number in range(2, 2 * pairs - 1, 2)]),
      f"{statistics.median(rates[::2]):.0f} steps/s")
