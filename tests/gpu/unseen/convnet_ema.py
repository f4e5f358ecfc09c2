# Convolution nets: channels_last, AMP, BatchNorm, pooling, interpolate, checkpointing, EMA weights, LR schedules.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import copy
import hashlib
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False
torch.use_deterministic_algorithms(True, warn_only=True)
torch.manual_seed(2024)


def digest(*ts):
    h = hashlib.sha256()
    for t in ts:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


class Res(nn.Module):
    def __init__(self, cin, cout, stride=1, groups=1):
        super().__init__()
        self.c1 = nn.Conv2d(cin, cout, 3, stride, 1, groups=groups, bias=False)
        self.c2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.b1, self.b2 = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)
        self.skip = nn.Identity() if cin == cout and stride == 1 else nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.b1(self.c1(x)))
        return F.leaky_relu(self.b2(self.c2(h)) + self.skip(x), 0.05)


class UNet(nn.Module):
    """Down, up by transposed convolution and by interpolation, classification head and a dense head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 5, 1, 2), nn.GroupNorm(8, 32), nn.SiLU())
        self.d1, self.d2 = Res(32, 64, 2), Res(64, 128, 2, groups=4)
        self.mid = nn.Sequential(Res(128, 128), Res(128, 128), Res(128, 128), Res(128, 128))
        self.up = nn.ConvTranspose2d(128, 64, 2, 2)
        self.u1, self.u2 = Res(128, 64), Res(96, 32)
        self.dense = nn.Conv2d(32, 3, 1)
        self.cls = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 10))

    def forward(self, x):
        s = self.stem(x)
        a = self.d1(s)
        b = self.d2(a)
        if self.training:
            b = checkpoint_sequential(self.mid, 2, b, use_reentrant=False)
        else:
            b = self.mid(b)
        p = F.max_pool2d(b, 2)
        p = F.interpolate(p, scale_factor=2, mode="nearest")
        u = torch.cat((self.up(b + p), a), 1)
        u = checkpoint(self.u1, u, use_reentrant=False) if self.training else self.u1(u)
        u = F.interpolate(u, scale_factor=2, mode="bilinear", align_corners=False)
        u = self.u2(torch.cat((u, s), 1))
        return self.dense(u), self.cls(b)


def data(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, 32, 32, generator=g)
    return x.cuda().contiguous(memory_format=torch.channels_last), torch.randint(0, 10, (n,), generator=g).cuda()


def unet():
    net = UNet().cuda().to(memory_format=torch.channels_last)
    ema = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=False)
    opt = torch.optim.SGD([{"params": [p for p in net.parameters() if p.ndim > 1], "weight_decay": 5e-4},
                           {"params": [p for p in net.parameters() if p.ndim <= 1]}], lr=0.05, momentum=0.9, nesterov=True)
    sched = torch.optim.lr_scheduler.SequentialLR(
        opt, [torch.optim.lr_scheduler.LinearLR(opt, 0.1, 1.0, 3), torch.optim.lr_scheduler.CosineAnnealingLR(opt, 9)], [3])
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    best, best_state = float("inf"), None
    for i in range(12):
        x, y = data(32, i % 4)
        with torch.autocast("cuda", dtype=torch.float16):
            dense, logits = net(x)
            loss = F.smooth_l1_loss(dense.float(), F.avg_pool2d(x, 3, 1, 1)) + F.cross_entropy(logits.float(), y, label_smoothing=0.1)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        sched.step()
        ema.update_parameters(net)
        if loss.item() < best:  # early stopping as users do it: a host decision on a device value
            best, best_state = loss.item(), copy.deepcopy(net.state_dict())
    print("unet loss %.5f best %.5f lr %.6f" % (loss.item(), best, sched.get_last_lr()[0]), digest(*net.parameters()))
    torch.optim.swa_utils.update_bn([data(32, i)[0] for i in range(4)], ema, device="cuda")
    net.load_state_dict(best_state)
    out = []
    for m in (net, ema):
        m.eval()
        with torch.inference_mode():
            d, c = m(data(16, 77)[0])
            out += [d, c]
    print("unet eval", digest(*out[:2]), "ema", digest(*out[2:]))


def temporal():
    """1-d and 3-d convolutions, depthwise, dilated, with instance norm, an LSTM by cudnn and LR on plateau."""
    torch.manual_seed(5)
    c1 = nn.Sequential(nn.Conv1d(8, 32, 7, padding=3), nn.BatchNorm1d(32), nn.ELU(), nn.AvgPool1d(2),
                       nn.Conv1d(32, 32, 3, padding=2, dilation=2, groups=32), nn.Conv1d(32, 48, 1), nn.PReLU(48)).cuda()
    lstm = nn.LSTM(48, 40, num_layers=2, batch_first=True, bidirectional=True).cuda()
    c3 = nn.Sequential(nn.Conv3d(1, 8, 3, padding=1), nn.InstanceNorm3d(8, affine=True), nn.ReLU(), nn.Conv3d(8, 4, 3, stride=2)).cuda()
    head = nn.Linear(80, 4).cuda()
    params = [p for m in (c1, lstm, c3, head) for p in m.parameters()]
    opt = torch.optim.RAdam(params, lr=3e-3)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=1)
    x = torch.randn(16, 8, 64, generator=torch.Generator().manual_seed(1)).cuda()
    v = torch.randn(4, 1, 8, 16, 16, generator=torch.Generator().manual_seed(2)).cuda()
    for i in range(8):
        h, _ = lstm(c1(x).transpose(1, 2))
        loss = F.huber_loss(head(h[:, -1]), x[:, :4, 5]) + c3(v).square().mean()
        opt.zero_grad()
        loss.backward()
        total = nn.utils.clip_grad_value_(params, 0.5)
        opt.step()
        plateau.step(loss.item())
    print("temporal loss %.6f" % loss.item(), digest(*params))


unet()
temporal()
