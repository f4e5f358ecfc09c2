# A network of which each half is on a device of its own; a stream beside
import torch

torch.manual_seed(0)
first, second = torch.device("cuda:0"), torch.device("cuda:1")
front, back = torch.nn.Linear(256, 512).to(first), torch.nn.Linear(512, 64).to(second)
optimizer = torch.optim.Adam([*front.parameters(), *back.parameters()], lr=1e-3)
x, y = torch.randn(128, 256), torch.randint(0, 64, (128,))
side = torch.cuda.Stream(second)
losses = []
for _ in range(20):
    hidden = torch.relu(front(x.to(first, non_blocking=True)))
    out = back(hidden.to(second, non_blocking=True))
    loss = torch.nn.functional.cross_entropy(out, y.to(second))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.cuda.stream(side):
        side.wait_stream(torch.cuda.current_stream(second))
        doubled = out.detach().to(first) * 2
    torch.cuda.current_stream(first).wait_stream(side)
    losses.append(loss.item())
torch.cuda.synchronize(first)
torch.cuda.synchronize(second)
assert losses[-1] < losses[0]
print(f"{losses[0]:.6f} {losses[-1]:.6f} {doubled.sum().item():.4f}")
