# A small causal language model with a key-value cache, sampled with top-k and temperature, in half precision
import torch
from torch import nn

torch.manual_seed(15)
width, heads, vocabulary, steps = 256, 8, 1000, 24


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.RMSNorm(width), nn.LayerNorm(width)

    def forward(self, x, cache, at):
        q, k, v = self.qkv(self.first(x)).view(x.shape[0], -1, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        cache[0][:, :, at:at + k.shape[2]], cache[1][:, :, at:at + k.shape[2]] = k, v
        seen = at + k.shape[2]
        mixed = nn.functional.scaled_dot_product_attention(q, cache[0][:, :, :seen], cache[1][:, :, :seen], is_causal=k.shape[2] > 1)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(nn.functional.silu(self.up(self.second(x))))


with torch.inference_mode():
    embed, layers, head = nn.Embedding(vocabulary, width).cuda().half(), [Layer().cuda().half() for _ in range(4)], nn.Linear(width, vocabulary).cuda().half()
    caches = [torch.zeros(2, 2, heads, 64, width // heads, device="cuda", dtype=torch.half) for _ in layers]
    tokens, at = torch.randint(0, vocabulary, (2, 8), device="cuda"), 0
    generated = []
    for _ in range(steps):
        x = embed(tokens)
        for layer, cache in zip(layers, caches):
            x = layer(x, cache, at)
        at += tokens.shape[1]
        logits, which = (head(x[:, -1]).float() / 0.8).topk(50)
        tokens = which.gather(1, torch.multinomial(logits.softmax(-1), 1))
        generated.append(tokens)
    print(torch.cat(generated, 1).tolist())
