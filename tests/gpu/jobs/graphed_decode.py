# Two ranks decode together by a CUDA graph, as servers do: each has half of a wide layer, an all-reduce adds the halves
# up, an all-gather has both see the words of the other, and one graph does it all for each token:
# torchrun --nproc-per-node 2
import os
import sys
import time

import torch
import torch.distributed as dist

LAYERS, WIDTH, WIDE, WORDS, TOKENS = 4, 512, 2048, 1000, 20
# So many tokens more, of which the time is printed, if they are asked for
TIMED = int(sys.argv[1]) if len(sys.argv) > 1 else 0

rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
ranks = dist.get_world_size()
torch.manual_seed(0)
torch.set_grad_enabled(False)


def weights(rows, columns, part):
    """Of what is the same at all ranks the rank's part of the rows (0) or columns (1)."""
    made = torch.randn(rows, columns) / columns**0.5
    return made.chunk(ranks, part)[rank].contiguous().cuda()


words = (torch.randn(WORDS, WIDTH)).cuda()
layers = [(weights(WIDE, WIDTH, 0), weights(WIDTH, WIDE, 1)) for _ in range(LAYERS)]
out = weights(WORDS, WIDTH, 0)
token = torch.zeros(1, dtype=torch.long, device="cuda")
likely = torch.empty(ranks, WORDS // ranks, device="cuda")


def decode():
    """Puts the token that follows in the place of the last."""
    x = words[token]
    for up, down in layers:
        part = torch.tanh(x @ up.T) @ down.T
        dist.all_reduce(part)
        x = x + part
    dist.all_gather_into_tensor(likely, x @ out.T)
    token.copy_(likely.view(-1).argmax(-1, keepdim=True))


beside = torch.cuda.Stream()
with torch.cuda.stream(beside):
    for _ in range(3):
        decode()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    decode()
decoded = []
for _ in range(TOKENS):
    graph.replay()
    decoded.append(token.item())
# A line in one piece, as both ranks write.
said = [rank, *decoded, likely.double().sum().item()]
os.write(1, (" ".join(map(str, said)) + "\n").encode())
if TIMED:
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(TIMED):
        graph.replay()
    torch.cuda.synchronize()
    print(f"{TIMED / (time.perf_counter() - begun):.0f} tokens a second", file=sys.stderr, flush=True)
# NCCL waits for graphs that hold its work to be gone.
graph.reset()
dist.destroy_process_group()
