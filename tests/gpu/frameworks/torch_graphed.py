# A whole training step as a CUDA graph, and a module made into graphed callables; several streams and events beside it
import torch
from torch import nn

torch.manual_seed(13)
model = nn.Sequential(nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 64)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, capturable=True)
x, y = torch.randn(32, 128, device="cuda"), torch.randn(32, 64, device="cuda")


def step():
    optimizer.zero_grad(set_to_none=False)
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()
losses = []
for n in range(5):
    x.copy_(torch.randn(32, 128, device="cuda"))
    graph.replay()
    losses.append(loss.item())
graphed = torch.cuda.make_graphed_callables(nn.Linear(128, 128).cuda(), (torch.randn(32, 128, device="cuda", requires_grad=True),))
first, second = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
done = torch.cuda.Event(enable_timing=True)
with torch.cuda.stream(first):
    a = graphed(x).sum()
    done.record()
with torch.cuda.stream(second):
    second.wait_event(done)
    b = a * 2
torch.cuda.synchronize()
print([round(l, 4) for l in losses], round(b.item(), 3), done.query())
