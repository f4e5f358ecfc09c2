# Two ranks of DistributedDataParallel over NCCL: torchrun --nproc-per-node 2
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
torch.manual_seed(0)
model = DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)).cuda(), device_ids=[rank]
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(rank)
x, y = torch.randn(128, 256, device="cuda"), torch.randint(0, 64, (128,), device="cuda")
losses = []
for _ in range(20):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
total = torch.tensor([losses[-1]], device="cuda")
dist.all_reduce(total)
assert losses[-1] < losses[0]
print(f"rank {rank}: {losses[0]:.5f} {losses[-1]:.5f} {total.item():.5f}", flush=True)
dist.destroy_process_group()
