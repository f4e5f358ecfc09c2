# Two ranks of DistributedDataParallel, and how many steps a second they make: torchrun --nproc-per-node 2 ddp_speed.py [small|transformer] [STEPS]
# Small: two layers, 64 rows. Transformer: 8 layers of 1024, 16 x 256 tokens, AdamW, bfloat16. Bare and recorded in turn, as hosts differ.
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

kind = sys.argv[1] if len(sys.argv) > 1 else "small"
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
torch.manual_seed(0)
if kind == "small":
    network = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 16)).cuda()
    given = torch.randn(64, 512, device="cuda")
else:
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0)
    network = torch.nn.TransformerEncoder(layer, 8).cuda()
    given = torch.randn(16, 256, 1024, device="cuda")
model = DistributedDataParallel(network, device_ids=[rank])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)


def step():
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=kind != "small"):
        loss = model(given).float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


for _ in range(20):
    step().item()
began = time.perf_counter()
for _ in range(steps):
    last = step().item()
if rank == 0:
    print(f"steps/s {steps / (time.perf_counter() - began):.2f}", flush=True)
dist.destroy_process_group()
