# One process, two devices: torch.nn.DataParallel copies the network to both, a thread for each runs half of the
# rows, and the gradients are summed on the first
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)).to("cuda:0")
model = torch.nn.DataParallel(model, device_ids=[0, 1])
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(128, 256, device="cuda:0"), torch.randint(0, 64, (128,), device="cuda:0")
losses = []
for _ in range(20):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0]
print(f"{losses[0]:.5f} {losses[-1]:.5f}")
