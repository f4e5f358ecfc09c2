# A speech recogniser from sound files to text: worker processes read WAV files, spectra and mel bands are made on the GPU, masks are drawn
# by the host, a Conformer is trained in fp16 with a GradScaler and cuDNN's CTC loss; greedy and prefix-beam decoding on the CPU, Viterbi
# alignment on the device, a streaming recogniser as a CUDA graph gated by a voice detector, and Griffin-Lim, pitch and resampling.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import hashlib
import math
import shutil
import tempfile
import wave
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

NAME, TOTAL, DEV = "torch_speech_ctc", hashlib.sha256(), "cuda"
RATE, HOP, FFT, MELS, LETTERS = 8000, 80, 256, 40, 10
FOLDER = tempfile.mkdtemp(prefix="speech_ctc_")


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        t = torch.view_as_real(t) if t.is_complex() else t
        raw = t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        h.update(raw)
        TOTAL.update(raw)
    return h.hexdigest()[:16]


def write_files(n):
    """Letter i is a chord of two tones with an envelope; letters last 0.16 s, between silences."""
    rng, texts, t = np.random.default_rng(1), [], np.arange(1280) / RATE
    for i in range(n):
        text = rng.integers(1, LETTERS + 1, 4 + i % 4)
        parts = [np.zeros(400)]
        for c in text:
            tone = np.sin(2 * np.pi * (300 + 130 * c) * t) + 0.6 * np.sin(2 * np.pi * (500 + 270 * c) * t)
            parts += [tone * np.hanning(1280), np.zeros(int(rng.integers(80, 400)))]
        sound = np.concatenate(parts + [np.zeros(400)])
        sound = 0.4 * sound + 0.01 * rng.standard_normal(len(sound))
        with wave.open(os.path.join(FOLDER, "%03d.wav" % i), "wb") as w:
            w.setparams((1, 2, RATE, 0, "NONE", ""))
            w.writeframes((sound.clip(-1, 1) * 32767).astype("<i2").tobytes())
        texts.append(text.astype(np.int32))
    return texts


class Files(torch.utils.data.Dataset):
    def __init__(self, texts):
        self.texts = texts

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        with wave.open(os.path.join(FOLDER, "%03d.wav" % i), "rb") as w:
            raw = np.frombuffer(w.readframes(w.getnframes()), "<i2")
        return torch.from_numpy(raw.astype(np.float32) / 32768), torch.from_numpy(self.texts[i])


def collate(batch):
    longest = -(-max(len(x) for x, _ in batch) // 2560) * 2560
    sound = torch.stack([F.pad(x, (0, longest - len(x))) for x, _ in batch])
    return sound, torch.cat([y for _, y in batch]), torch.tensor([len(y) for _, y in batch], dtype=torch.int32)


def mel_bank():
    mel = lambda f: 2595 * math.log10(1 + f / 700)
    edges = 700 * (10 ** (torch.linspace(mel(60), mel(RATE / 2), MELS + 2) / 2595) - 1)
    f = torch.linspace(0, RATE / 2, FFT // 2 + 1)[:, None]
    up, down = (f - edges[:-2]) / (edges[1:-1] - edges[:-2]), (edges[2:] - f) / (edges[2:] - edges[1:-1])
    return torch.minimum(up, down).clamp(min=0).to(DEV)


class Front(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bank", mel_bank())
        self.register_buffer("window", torch.hann_window(FFT, device=DEV))

    @torch.no_grad()
    def forward(self, x):
        z = torch.stft(x, FFT, HOP, window=self.window, center=True, return_complex=True)
        m = (z.real.square() + z.imag.square()).mT @ self.bank
        m = torch.log(m + 1e-5)
        return (m - m.mean(1, keepdim=True)) / (m.std(1, keepdim=True) + 1e-3)


class Conformer(nn.Module):
    def __init__(self, d=96, heads=4):
        super().__init__()
        half = lambda: nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.SiLU(), nn.Dropout(0.05), nn.Linear(3 * d, d))
        self.f1, self.f2, self.heads = half(), half(), heads
        self.n1, self.n2, self.n3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out, self.distance = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Parameter(torch.zeros(heads))
        self.widen, self.depth = nn.Conv1d(d, 2 * d, 1), nn.Conv1d(d, d, 9, padding=4, groups=d)
        self.bn, self.narrow = nn.BatchNorm1d(d), nn.Conv1d(d, d, 1)

    def forward(self, x):
        x = x + 0.5 * self.f1(x)
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        far = (torch.arange(t, device=x.device)[:, None] - torch.arange(t, device=x.device)).abs()
        s = q @ k.mT / math.sqrt(q.shape[-1]) - far * F.softplus(self.distance)[:, None, None]
        x = x + self.out((s.softmax(-1).to(v.dtype) @ v).transpose(1, 2).reshape(b, t, d))
        y = F.glu(self.widen(self.n2(x).mT), 1)
        x = x + self.narrow(F.silu(self.bn(self.depth(y)))).mT
        return self.n3(x + 0.5 * self.f2(x))


class Recogniser(nn.Module):
    def __init__(self, d=96):
        super().__init__()
        self.sub = nn.Sequential(nn.Conv2d(1, 24, 3, 2, 1), nn.ReLU(), nn.Conv2d(24, 24, 3, 2, 1), nn.ReLU())
        self.inp, self.blocks, self.head = nn.Linear(24 * MELS // 4, d), nn.ModuleList(Conformer(d) for _ in range(3)), nn.Linear(d, LETTERS + 1)

    def forward(self, m):
        x = self.sub(m[:, None]).permute(0, 2, 1, 3).flatten(2)
        x = self.inp(x)
        for b in self.blocks:
            x = b(x)
        return self.head(x).float().log_softmax(-1)


def prefix_beam(logp, width=6):
    """On the CPU, in double precision; ties are broken by the text itself."""
    add, beams = np.logaddexp, {(): (0.0, -np.inf)}
    for row in logp:
        new = {}
        for text, (pb, pn) in beams.items():
            for c in np.argsort(-row, kind="stable")[:4]:
                c, p = int(c), float(row[c])
                key = text if c == 0 or (text and text[-1] == c) else text + (c,)
                b, n = new.get(key, (-np.inf, -np.inf))
                if c == 0:
                    new[key] = (add(b, add(pb, pn) + p), n)
                elif key is text:
                    new[key] = (b, add(n, pn + p))
                    b2, n2 = new.get(text + (c,), (-np.inf, -np.inf))
                    new[text + (c,)] = (b2, add(n2, pb + p))
                else:
                    new[key] = (b, add(n, add(pb, pn) + p))
        beams = dict(sorted(new.items(), key=lambda kv: (-round(float(add(*kv[1])), 9), kv[0]))[:width])
    return next(iter(beams))


STATE = {}


def train():
    texts = write_files(96)
    order = [list(range(k, 96, 8)) for k in range(8)]
    loader = torch.utils.data.DataLoader(Files(texts), batch_sampler=order, collate_fn=collate, num_workers=2, pin_memory=True,
                                         persistent_workers=True)
    torch.manual_seed(2)
    front, net = Front(), Recogniser().to(DEV)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3, betas=(0.9, 0.98))
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2e-3, total_steps=8 * 10)
    scaler, rng, losses = torch.amp.GradScaler("cuda", init_scale=2.0 ** 14, growth_interval=20), np.random.default_rng(3), []
    for epoch in range(10):
        for sound, text, lens in loader:
            m = front(sound.to(DEV, non_blocking=True))
            keep = torch.ones(m.shape, dtype=torch.bool).pin_memory()
            for b in range(m.shape[0]):  # the host decides what is hidden
                f, t = int(rng.integers(0, MELS - 5)), int(rng.integers(0, m.shape[1] - 8))
                keep[b, :, f:f + 5], keep[b, t:t + 8] = False, False
            m = m * keep.to(DEV, non_blocking=True)
            with torch.autocast("cuda", torch.float16):
                logp = net(m)
            size = torch.full((m.shape[0],), logp.shape[1], dtype=torch.int32)
            loss = F.ctc_loss(logp.transpose(0, 1), text.to(DEV), size.to(DEV), lens.to(DEV), blank=0, zero_infinity=True)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(net.parameters(), 2.0)
            scaler.step(opt)
            scaler.update()
            sched.step()
            opt.zero_grad(set_to_none=True)
            losses.append(loss.detach())
    path = torch.stack(losses)
    STATE.update(net=net, front=front, loader=loader, texts=texts)
    print("train", bool(path[-8:].mean() < path[:8].mean() * 0.8), digest(path, *net.parameters(), *net.buffers()))


@torch.inference_mode()
def decode():
    net, front = STATE["net"].eval(), STATE["front"]
    said, right = [], 0
    for k, (sound, text, lens) in enumerate(STATE["loader"]):
        logp = net(front(sound.to(DEV, non_blocking=True)))
        host = torch.empty(logp.shape, pin_memory=True)
        host.copy_(logp, non_blocking=True)
        best = logp.argmax(-1)
        torch.cuda.current_stream().synchronize()
        for b, want in enumerate(text.split(lens.tolist())):
            u = torch.unique_consecutive(best[b])
            greedy = tuple(u[u > 0].tolist())
            beam = prefix_beam(host[b].numpy().astype(np.float64)) if k < 2 else greedy
            said.append(greedy + (0,) + beam)
            right += greedy == tuple(want.tolist())
    print("decode", len(said), digest(torch.tensor([c for s in said for c in s] + [right]), logp))


@torch.inference_mode()
def align():
    """Viterbi over all utterances of a batch at once, backwards pointers on the device, the way back walked by gathers."""
    net, front = STATE["net"].eval(), STATE["front"]
    sound, text, lens = next(iter(STATE["loader"]))
    logp = net(front(sound.to(DEV)))
    n, s = len(lens), 2 * int(lens.max()) + 1
    states = torch.zeros(n, s, dtype=torch.int64)
    for b, y in enumerate(text.split(lens.tolist())):
        states[b, 1:2 * len(y):2] = y
    jump = torch.zeros(n, s, dtype=torch.bool)
    jump[:, 2:] = (states[:, 2:] != 0) & (states[:, 2:] != states[:, :-2])
    states, jump = states.to(DEV), jump.to(DEV)
    emit = logp.gather(2, states[:, None].expand(-1, logp.shape[1], -1))
    v, back = torch.full((n, s), -1e9, device=DEV), []
    v[:, :2] = emit[:, 0, :2]
    for t in range(1, emit.shape[1]):
        one, two = F.pad(v, (1, 0), value=-1e9)[:, :-1], F.pad(v, (2, 0), value=-1e9)[:, :-2].masked_fill(~jump, -1e9)
        v, where = torch.stack((v, one, two)).max(0)
        v = v + emit[:, t]
        back.append(where)
    at = (2 * lens.to(DEV).long())[:, None]
    path = [at]
    for where in reversed(back):
        at = (at - where.gather(1, at)).clamp(min=0)
        path.append(at)
    print("align", digest(torch.cat(path[::-1], 1), v))


@torch.inference_mode()
def streaming():
    """One graph per chunk of sound: overlap, spectrum, a two-layer LSTM whose state stays in place. Quiet chunks are not run at all."""
    torch.manual_seed(4)
    rnn, head, front = nn.LSTM(MELS, 64, 2, batch_first=True).to(DEV), nn.Linear(64, LETTERS + 1).to(DEV), STATE["front"]
    chunk = torch.zeros(1, 640, device=DEV)
    tail, h, c = torch.zeros(1, FFT - HOP, device=DEV), torch.zeros(2, 1, 64, device=DEV), torch.zeros(2, 1, 64, device=DEV)
    out = torch.zeros(8, LETTERS + 1, device=DEV)

    def step():
        x = torch.cat((tail, chunk), 1)
        tail.copy_(x[:, -tail.shape[1]:])
        z = torch.fft.rfft(x.unfold(1, FFT, HOP) * front.window)
        y, (h2, c2) = rnn(torch.log((z.abs().square() @ front.bank) + 1e-5), (h, c))
        h.copy_(h2)
        c.copy_(c2)
        out.copy_(head(y[0]).softmax(-1))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    sound = torch.cat([Files(STATE["texts"])[i][0] for i in range(6)])
    ring, answers, results = [torch.empty(1, 640, pin_memory=True) for _ in range(3)], [], []
    for mode in ("graph", "eager"):
        for t in (tail, h, c):
            t.zero_()
        rows, skipped, loud, events = [], 0, 0.01, [None] * 3
        for k in range(len(sound) // 640):
            if events[k % 3] is not None:
                events[k % 3].synchronize()  # the slot was sent
            piece = ring[k % 3]
            piece.copy_(sound[k * 640:(k + 1) * 640][None])
            if piece.square().mean().item() < loud:
                skipped += 1
                continue
            chunk.copy_(piece, non_blocking=True)
            graph.replay() if mode == "graph" else step()
            rows.append(out.clone())
            events[k % 3] = torch.cuda.Event()
            events[k % 3].record()
            if k % 7 == 0:  # what was understood changes what counts as loud
                loud = 0.01 if rows[-1].argmax(1).float().mean().item() > 3 else 0.012
        results.append(torch.cat(rows))
        answers.append(skipped)
    print("streaming", answers[0] == answers[1], torch.allclose(results[0], results[1], atol=1e-5), digest(*results, h, c))


@torch.inference_mode()
def synthesis():
    sound = torch.stack([F.pad(Files(STATE["texts"])[i][0], (0, 20000))[:16000] for i in range(4)]).to(DEV)
    w = torch.hann_window(FFT, device=DEV)
    go = lambda x: torch.stft(x, FFT, HOP, window=w, return_complex=True)
    size = go(sound).abs()
    angle = torch.rand(size.shape, generator=torch.Generator().manual_seed(5)).to(DEV) * 2 * math.pi
    for _ in range(12):
        x = torch.istft(torch.polar(size, angle), FFT, HOP, window=w, length=16000)
        angle = go(x).angle()
    frames = sound.unfold(1, 512, 256) * torch.hann_window(512, device=DEV)
    power = torch.fft.rfft(frames, n=1024).abs().square()
    lag = torch.fft.irfft(power)[..., 20:160].argmax(-1)
    k = torch.arange(-32, 33, device=DEV, dtype=torch.float64)
    taps = (torch.special.sinc(k / 2) * torch.special.modified_bessel_i0(6 * (1 - (k / 33) ** 2).sqrt()))
    half = F.conv1d(sound[:, None], (taps / taps.sum()).float()[None, None], stride=2, padding=32)
    slow = F.interpolate(go(sound).abs(), size=300, mode="linear", align_corners=False)
    print("synthesis", digest(x, angle), digest(lag, half, slow))


torch.use_deterministic_algorithms(True, warn_only=True)
torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
try:
    for f in (train, decode, align, streaming, synthesis):
        try:
            f()
        except Exception as e:
            print("skipped: %s: %s" % (f.__name__, type(e).__name__))
    STATE.clear()
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
print("%s: checksum %s" % (NAME, TOTAL.hexdigest()[:32]))
