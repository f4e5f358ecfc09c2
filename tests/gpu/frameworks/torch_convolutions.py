# cuDNN: a residual network trained in bfloat16 with channels last, momentum and a learning rate schedule; then evaluated
import torch
from torch import nn

torch.manual_seed(11)
torch.backends.cudnn.deterministic = True


class Block(nn.Module):
    def __init__(self, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width // stride, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1, groups=4, bias=False), nn.BatchNorm2d(width))
        self.skip = nn.Conv2d(width // stride, width, 1, stride)

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


model = nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3), Block(32, 2), Block(64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
model = model.cuda().to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, foreach=True)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
x = torch.randn(16, 3, 64, 64, device="cuda").to(memory_format=torch.channels_last)
y = torch.randint(0, 10, (16,), device="cuda")
for _ in range(6):
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
model.eval()
with torch.inference_mode():
    out = nn.functional.interpolate(x, scale_factor=0.5, mode="bilinear")
    transposed = nn.functional.conv_transpose2d(out, torch.ones(3, 4, 2, 2, device="cuda"), stride=2)
    print(round(loss.item(), 4), model(x).argmax(1).tolist(), round(transposed.sum().item(), 1))
