# Two ranks, a device each: DistributedDataParallel over NCCL, and collectives on two communicators
#   cutrace record -o run/ -- torchrun --nproc-per-node 2 ddp_nccl.py [STEPS [LATE]]
# At step LATE rank 1 does not come, until it is killed.
import os
import sys
import time

import torch
import torch.distributed as dist

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
late = int(sys.argv[2]) if len(sys.argv) > 2 else -1
rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
second = dist.new_group([0, 1])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 16)).cuda()
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = torch.zeros(1, device="cuda")
for step in range(steps):
    if step == late and rank == 1:
        print("late", flush=True)
        time.sleep(3600)
    given = torch.randn(64, 512, device="cuda")
    loss = model(given).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses += loss.detach()
    if step % 5 == 4:
        dist.all_reduce(losses, group=second)
        torch.cuda.synchronize()
one = torch.full((4,), float(rank), device="cuda")
if rank == 0:
    dist.send(one, 1)
else:
    dist.recv(one, 0)
everyone = [torch.empty_like(one) for _ in range(2)]
dist.all_gather(everyone, one)
torch.cuda.synchronize()
print(rank, f"{losses.item():.4f}", [t[0].item() for t in everyone], flush=True)
dist.destroy_process_group()
