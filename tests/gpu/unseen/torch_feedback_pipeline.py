# A pipeline in a circle: CPU threads make images, they go up through pinned buffers, are rotated, warped, filtered and
# reduced on the GPU, come back, and what the CPU makes of them decides what later uploads hold. The program never waits
# for a stream: it polls events and does other things meanwhile.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import hashlib
import queue
import threading
import time
import numpy as np
import torch
import torch.nn.functional as F

torch.use_deterministic_algorithms(True)
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False
torch.backends.cudnn.allow_tf32 = False
N, C, H, W, STEPS, LAG, MAKERS = 8, 3, 72, 80, 100, 4, 3


class Feedback:
    """What step i has shown is looked at by step i + LAG and by nobody else, however the threads run."""

    def __init__(self):
        self.cond, self.state = threading.Condition(), {i: np.arange(16, dtype=np.int64) * (i + LAG + 1) for i in range(-LAG, 0)}
        self.failed = None

    def put(self, i, v):
        with self.cond:
            self.state[i] = v
            self.cond.notify_all()

    def get(self, i):
        with self.cond:
            while i not in self.state:
                if self.failed:
                    raise RuntimeError("stopped")
                self.cond.wait(1)
            return self.state[i].copy()

    def fail(self, e):
        with self.cond:
            self.failed = self.failed or e
            self.cond.notify_all()


def make(i, seen):
    """Bytes and numbers for step i; only whole numbers and the generator are used."""
    rng = np.random.default_rng([i, int(seen.sum() % 1_000_003), int(seen[i % 16])])
    img = rng.integers(0, 256, (N, C, H, W), dtype=np.uint8)
    a, b = (int(v) for v in seen[:2])
    img[:, :, a % H, :] = 255 - i
    img[:, :, :, b % W] = (a + b) % 256
    turn = rng.integers(-200, 201, (N, 2, 3)).astype(np.float32) / 1024
    turn[:, 0, 0] += 1
    turn[:, 1, 1] += 1
    gains = (rng.integers(1, 9, (N, C)) + seen[2] % 5).astype(np.float32) / 8
    return img, turn, gains


def maker(k, out, feedback):
    try:
        for i in range(k, STEPS, MAKERS):
            out.put(make(i, feedback.get(i - LAG)))
    except Exception as e:
        feedback.fail(e)
        out.put(None)


class Slot:
    """Buffers of one step in flight."""

    def __init__(self):
        pin = lambda *s, t=torch.float32: torch.zeros(*s, dtype=t, pin_memory=True)
        self.img, self.turn, self.gain = pin(N, C, H, W, t=torch.uint8), pin(N, 2, 3), pin(N, C)
        self.small, self.counts = pin(N, 4, 6, 6), pin(16, t=torch.int64)
        self.gpu = torch.zeros(N, C, H, W, dtype=torch.uint8, device="cuda")
        self.up, self.done, self.step = torch.cuda.Event(), torch.cuda.Event(blocking=True), None


def process(img, turn, gain, filters):
    x = img.float() / 255 * gain[:, :, None, None]
    grid = F.affine_grid(turn, (N, C, H, W), align_corners=False)
    x = F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    x = torch.where((turn[:, 0, 1] > 0)[:, None, None, None], x.flip(3), x)
    y = F.conv2d(x, filters[0], padding=2, stride=2)
    y = F.conv2d(F.leaky_relu(y, 0.1), filters[1], padding=1)
    small = F.avg_pool2d(y, 6)[:, :, :6, :6]
    level = (y * 64).round().to(torch.int64).remainder(16).flatten()
    counts = (level[None, :] == torch.arange(16, device="cuda")[:, None]).sum(1)
    return small, counts


def main():
    g = torch.Generator().manual_seed(3)
    filters = [(torch.randn(12, C, 5, 5, generator=g) / 8).cuda(), (torch.randn(4, 12, 3, 3, generator=g) / 10).cuda()]
    feedback, queues = Feedback(), [queue.Queue(maxsize=2) for _ in range(MAKERS)]
    makers = [threading.Thread(target=maker, args=(k, q, feedback), daemon=True) for k, q in enumerate(queues)]
    up, work, down = torch.cuda.Stream(), torch.cuda.Stream(priority=-1), torch.cuda.Stream()
    slots, flying, hashes, idle = [Slot() for _ in range(LAG + 1)], [], [None] * STEPS, 0
    torch.cuda.synchronize()
    for t in makers:
        t.start()
    running = torch.zeros(N, 4, 6, 6, device="cuda")
    torch.cuda.synchronize()
    nxt = consumed = 0
    while consumed < STEPS:
        busy = True
        if nxt < STEPS and slots[nxt % len(slots)].step is None:
            try:
                item = queues[nxt % MAKERS].get_nowait()
                if item is None:
                    raise feedback.failed
                s = slots[nxt % len(slots)]
                s.img.numpy()[...], s.turn.numpy()[...], s.gain.numpy()[...] = item
                with torch.cuda.stream(up):
                    s.gpu.copy_(s.img, non_blocking=True)
                    turn, gain = s.turn.to("cuda", non_blocking=True), s.gain.to("cuda", non_blocking=True)
                    s.up.record()
                with torch.cuda.stream(work), torch.no_grad():
                    work.wait_event(s.up)
                    small, counts = process(s.gpu, turn, gain, filters)
                    running.mul_(0.9).add_(small)
                    kept = running.clone() if nxt % 10 == 9 else small.contiguous()
                    turn.record_stream(work)
                    gain.record_stream(work)
                down.wait_stream(work)
                with torch.cuda.stream(down):
                    s.small.copy_(kept, non_blocking=True)
                    s.counts.copy_(counts, non_blocking=True)
                    kept.record_stream(down)
                    counts.record_stream(down)
                    s.done.record()
                s.step = nxt
                flying.append(s)
                nxt += 1
                busy = False
            except queue.Empty:
                pass
        if flying and flying[0].done.query():  # in the order of the steps
            s = flying.pop(0)
            hashes[s.step] = hashlib.sha256(s.small.numpy().tobytes() + s.counts.numpy().tobytes()).hexdigest()
            feedback.put(s.step, s.counts.numpy().copy())
            s.step = None
            consumed += 1
            busy = False
        if busy:
            idle += 1  # a real program would do something useful here
            time.sleep(0)
    for t in makers:
        t.join()
    for i in range(0, STEPS, 20):
        print("steps", i, hashlib.sha256("".join(hashes[i : i + 20]).encode()).hexdigest()[:16])
    torch.cuda.synchronize()
    print("running", hashlib.sha256(running.cpu().numpy().tobytes()).hexdigest()[:16], "last", feedback.state[STEPS - 1].tolist())
    print("drained", up.query() and work.query() and down.query(), all(s.done.query() for s in slots))


main()
