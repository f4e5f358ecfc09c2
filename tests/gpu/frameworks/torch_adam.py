# Training with Adam, mixed precision and a gradient scaler; prints the losses
import torch

torch.manual_seed(1)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Flatten(), torch.nn.Linear(16 * 16 * 16, 128), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(128, 10),
).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda")
images, labels = torch.randn(64, 3, 32, 32).pin_memory(), torch.randint(0, 10, (64,)).pin_memory()
losses = []
for _ in range(8):
    x, y = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
print(len(losses), losses[0] > 0, losses[-1] < losses[0])
