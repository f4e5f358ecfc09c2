# Two ranks decode together: each has half of the heads and half of the wide layer, and an all-reduce behind either
# adds the halves up: torchrun --nproc-per-node 2
import os

import torch
import torch.distributed as dist
from torch.nn.functional import layer_norm, scaled_dot_product_attention, silu

LAYERS, WIDTH, HEADS, WIDE, WORDS, PROMPT, TOKENS = 4, 256, 8, 1024, 1000, 8, 20

rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
ranks = dist.get_world_size()
heads, size = HEADS // ranks, WIDTH // HEADS
torch.manual_seed(0)
torch.set_grad_enabled(False)


def weights(rows, columns, part=None):
    """The same at all ranks; of them the rank's part of the rows (0) or columns (1)."""
    made = torch.randn(rows, columns) / columns**0.5
    return (made if part is None else made.chunk(ranks, part)[rank].contiguous()).cuda()


words = weights(WORDS, WIDTH) * WIDTH**0.5
layers = [
    {
        "ask": weights(WIDTH, WIDTH, 0),
        "key": weights(WIDTH, WIDTH, 0),
        "value": weights(WIDTH, WIDTH, 0),
        "out": weights(WIDTH, WIDTH, 1),
        "up": weights(WIDE, WIDTH, 0),
        "down": weights(WIDTH, WIDE, 1),
        "keys": torch.zeros(heads, PROMPT + TOKENS, size, device="cuda"),
        "values": torch.zeros(heads, PROMPT + TOKENS, size, device="cuda"),
    }
    for _ in range(LAYERS)
]


def split(x):
    return x.view(-1, heads, size).transpose(0, 1)


def decode(tokens, at):
    """The token that follows these, which are the sequence's from `at` on."""
    x, end = words[tokens], at + len(tokens)
    for layer in layers:
        normal = layer_norm(x, (WIDTH,))
        layer["keys"][:, at:end] = split(normal @ layer["key"].T)
        layer["values"][:, at:end] = split(normal @ layer["value"].T)
        found = scaled_dot_product_attention(
            split(normal @ layer["ask"].T), layer["keys"][:, :end], layer["values"][:, :end], is_causal=at == 0
        )
        part = found.transpose(0, 1).reshape(-1, heads * size) @ layer["out"].T
        dist.all_reduce(part)
        x = x + part
        part = silu(layer_norm(x, (WIDTH,)) @ layer["up"].T) @ layer["down"].T
        dist.all_reduce(part)
        x = x + part
    return (layer_norm(x[-1:], (WIDTH,)) @ words.T).argmax(-1)


given = torch.arange(PROMPT, device="cuda") * 37 % WORDS
token, at, decoded = decode(given, 0), PROMPT, []
for _ in range(TOKENS):
    decoded.append(token.item())
    token, at = decode(token, at), at + 1
sums = torch.tensor([sum(decoded)] * 2, device="cuda")
sums[1] *= -1
dist.all_reduce(sums, op=dist.ReduceOp.MAX)
assert sums[0] == -sums[1], "the ranks decoded different tokens"
if rank == 0:
    print(*decoded, flush=True)
dist.destroy_process_group()
