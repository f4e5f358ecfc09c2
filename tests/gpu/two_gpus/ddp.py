# Data-parallel training over NCCL, a process for each device: torchrun --nproc-per-node 2 ddp.py [STEPS [rate]]
import os, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["RANK"])
local = int(os.environ["LOCAL_RANK"])
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
torch.cuda.set_device(local)
dist.init_process_group("nccl", device_id=torch.device("cuda", local))
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
model = DistributedDataParallel(model, device_ids=[local])
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + rank)
inputs, labels = torch.randn(64, 256), torch.randint(0, 10, (64,))
begun = None
for step in range(steps):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
    if step == steps // 5:
        torch.cuda.synchronize()
        begun = time.perf_counter()
torch.cuda.synchronize()
rate = (steps - 1 - steps // 5) / (time.perf_counter() - begun)
total = torch.zeros(1, device="cuda") + loss.detach()
dist.all_reduce(total)
if rank == 0:
    print(f"loss {total.item():.4f}")
    if len(sys.argv) > 2:
        print(f"steps/s {rate:.1f}")
dist.destroy_process_group()
