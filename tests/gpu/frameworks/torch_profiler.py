# PyTorch's own profiler (CUPTI) at work while the program is recorded.
import torch
from torch.profiler import ProfilerActivity, profile

x = torch.randn(256, 256, device="cuda")
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
    for _ in range(10):
        x = (x @ x).tanh()
    torch.cuda.synchronize()
print(profiler.key_averages().table(sort_by="self_cuda_time_total", row_limit=12))
