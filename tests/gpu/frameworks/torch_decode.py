# Token by token through a captured graph, as an inference server does; expandable segments, pinned results
import os

os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
import torch

torch.manual_seed(2)
vocabulary, width, length = 512, 256, 64
embed = torch.nn.Embedding(vocabulary, width).cuda().half()
layers = torch.nn.ModuleList(torch.nn.TransformerEncoderLayer(width, 4, 512, batch_first=True, dropout=0) for _ in range(2)).cuda().half().eval()
head = torch.nn.Linear(width, vocabulary).cuda().half()
tokens = torch.zeros(1, length, dtype=torch.long, device="cuda")
position = torch.zeros(1, dtype=torch.long, device="cuda")


@torch.no_grad()
def step():
    x = embed(tokens)
    for layer in layers:
        x = layer(x)
    following = head(x.index_select(1, position)).argmax(-1)
    position.add_(1)
    tokens.index_copy_(1, position, following)


side = torch.cuda.Stream()
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
tokens.zero_()
position.zero_()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
tokens.zero_()
position.zero_()
for _ in range(20):
    graph.replay()
result = torch.empty(1, length, dtype=torch.long, pin_memory=True)
result.copy_(tokens, non_blocking=True)
torch.cuda.synchronize()
print(result[0, :21].tolist())
