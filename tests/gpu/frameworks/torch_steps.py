"""Training steps of a small model with nothing but the steps, each in an NVTX range, three of them in the profiler's: to be repeated."""
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, targets = torch.randn(256, 512, device="cuda"), torch.randint(0, 10, (256,), device="cuda")
for step in range(20):
    torch.cuda.synchronize()
    if step == 10:
        torch.cuda.profiler.start()
    with torch.cuda.nvtx.range("step"):
        optimizer.zero_grad(set_to_none=False)
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
    if step == 12:
        torch.cuda.profiler.stop()
print(f"loss {loss.item():.6f}")
