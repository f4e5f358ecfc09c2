# torch.compile with autotuned Triton kernels, dynamic shapes, and backward through it
import torch

torch.manual_seed(17)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.SiLU(), torch.nn.LayerNorm(256), torch.nn.Linear(256, 16)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


@torch.compile(dynamic=True)
def loss_of(x, y):
    return torch.nn.functional.huber_loss(model(x), y) + 0.01 * model[0].weight.abs().mean()


losses = []
for rows in (32, 48, 64, 48):
    x, y = torch.randn(rows, 64, device="cuda"), torch.randn(rows, 16, device="cuda")
    optimizer.zero_grad()
    loss = loss_of(x, y)
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 5))
print(losses)
