# Reinforcement learning as it is done for speed: worker processes (no CUDA of their own) simulate worlds and write what is
# observed straight into memory that they share with the trainer, which has registered it with CUDA; actions go back the
# same way. Two halves of the worlds take turns. Rollouts live in memory pools of their own; updates are a CUDA graph.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:False"
import hashlib
import math
import mmap
import multiprocessing
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

WORKERS, WORLDS, OBS, ACTIONS, HALVES, ITERATIONS = 4, 32, 6, 5, 2, 7
N = WORKERS * WORLDS  # in each half
SIZES = {"obs": (HALVES, N, OBS), "reward": (HALVES, N), "done": (HALVES, N), "action": (HALVES, N)}
TYPES = {"obs": np.float32, "reward": np.float32, "done": np.uint8, "action": np.int64}


def shared():
    maps = {k: mmap.mmap(-1, int(np.prod(s)) * np.dtype(TYPES[k]).itemsize + 4096) for k, s in SIZES.items()}
    return maps, {k: np.frombuffer(m, TYPES[k], int(np.prod(SIZES[k]))).reshape(SIZES[k]) for k, m in maps.items()}


def simulate(k, views, go, ready, stop):
    """A ball on a bumpy plane, to be kept near a target that moves."""
    mine, states = slice(k * WORLDS, (k + 1) * WORLDS), []
    rng = np.random.default_rng(k)
    for _ in range(HALVES):
        states.append(rng.standard_normal((WORLDS, OBS)).astype(np.float32))
    push = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], np.float32)
    for h in range(HALVES):
        views["obs"][h, mine] = states[h]
        ready[h].release()
    while True:
        for h in range(HALVES):
            go[h].acquire()
            if stop.value:
                return
            s, a = states[h], push[views["action"][h, mine]]
            s[:, 2:4] = s[:, 2:4] * np.float32(0.9) + a * np.float32(0.2) - np.float32(0.05) * s[:, 0:2] * np.abs(s[:, 0:2])
            s[:, 0:2] += s[:, 2:4] * np.float32(0.3)
            s[:, 4:6] = s[:, 4:6] * np.float32(0.99) + rng.standard_normal((WORLDS, 2)).astype(np.float32) * np.float32(0.05)
            distance = np.abs(s[:, 0:2] - s[:, 4:6]).sum(1)
            over = distance > 6
            s[over] = 0
            views["reward"][h, mine] = np.float32(1) - distance
            views["done"][h, mine] = over
            views["obs"][h, mine] = s
            ready[h].release()


class Agent(nn.Module):
    def __init__(self, values=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
        self.policy = nn.Linear(128, ACTIONS)
        self.values = nn.ModuleList(nn.Sequential(nn.Linear(OBS, 64), nn.Tanh(), nn.Linear(64, 1)) for _ in range(values))

    def forward(self, x):
        return self.policy(self.body(x)).log_softmax(-1), torch.stack([v(x) for v in self.values]).mean(0)[..., 0]


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


def main():
    maps, views = shared()
    mp = multiprocessing.get_context("fork")
    stop = mp.Value("b", 0)
    go = [[mp.Semaphore(0) for _ in range(HALVES)] for _ in range(WORKERS)]
    ready = [[mp.Semaphore(0) for _ in range(HALVES)] for _ in range(WORKERS)]
    procs = [mp.Process(target=simulate, args=(k, views, go[k], ready[k], stop), daemon=True) for k in range(WORKERS)]
    for p in procs:
        p.start()  # before anything of CUDA

    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    host = {k: torch.from_numpy(v) for k, v in views.items()}
    rt = torch.cuda.cudart()
    for k, v in views.items():
        err = rt.cudaHostRegister(v.ctypes.data, v.nbytes, 1)
        if int(err) != 0:
            print("skipped: register", k, int(err))
    print("registered", [host[k].is_pinned() for k in host])

    agent, behaviour = Agent().cuda(), Agent().cuda()
    behaviour.load_state_dict(agent.state_dict())
    opt = torch.optim.AdamW(agent.parameters(), lr=torch.tensor(1e-3, device="cuda"), capturable=True, foreach=True)
    gen = torch.Generator("cuda").manual_seed(2)
    streams, done = [torch.cuda.Stream() for _ in range(HALVES)], [torch.cuda.Event() for _ in range(HALVES)]

    # the update as a graph, for minibatches of one size
    M = 256
    static = {"obs": torch.zeros(M, OBS, device="cuda"), "action": torch.zeros(M, dtype=torch.int64, device="cuda"),
              "logp": torch.zeros(M, device="cuda"), "advantage": torch.zeros(M, device="cuda"), "goal": torch.zeros(M, device="cuda")}
    loss_out = torch.zeros((), device="cuda")

    def update():
        opt.zero_grad(set_to_none=True)
        logits, value = agent(static["obs"])
        onehot = (torch.arange(ACTIONS, device="cuda") == static["action"][:, None]).float()
        ratio = ((logits * onehot).sum(1) - static["logp"]).exp()
        gain = torch.minimum(ratio * static["advantage"], ratio.clamp(0.8, 1.2) * static["advantage"]).mean()
        loss = (value - static["goal"]).square().mean() - gain + 0.01 * (logits.exp() * logits).sum(1).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5, foreach=True)
        opt.step()
        loss_out.copy_(loss.detach())

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            update()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    opt.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        update()
    opt.zero_grad(set_to_none=True)

    for it in range(ITERATIONS):
        horizon = 24 + 8 * (it % 3)  # other sizes, so that other memory is asked for
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            roll = {k: torch.zeros(horizon, HALVES, N, *((OBS,) if k == "obs" else ()), device="cuda") for k in ("obs", "logp", "value", "reward", "alive")}
            roll["action"] = torch.zeros(horizon, HALVES, N, dtype=torch.int64, device="cuda")
        behaviour.load_state_dict(agent.state_dict())
        torch.cuda.synchronize()
        for t in range(horizon):
            for h in range(HALVES):
                for k in range(WORKERS):
                    ready[k][h].acquire()  # all workers' parts of this half are written
                with torch.no_grad(), torch.cuda.stream(streams[h]):
                    if t:
                        roll["reward"][t - 1, h].copy_(host["reward"][h], non_blocking=True)
                        roll["alive"][t - 1, h].copy_(1 - host["done"][h].to("cuda", non_blocking=True).float())
                    roll["obs"][t, h].copy_(host["obs"][h], non_blocking=True)
                    logits, value = behaviour(roll["obs"][t, h])
                    if h:
                        streams[1].wait_event(done[0])  # the generator's order is the same anyway
                    noise = -torch.log(-torch.log(torch.rand(N, ACTIONS, device="cuda", generator=gen).clamp(1e-6, 1 - 1e-6)))
                    action = (logits + noise).argmax(-1)
                    roll["action"][t, h].copy_(action)
                    roll["value"][t, h].copy_(value)
                    roll["logp"][t, h].copy_(torch.where(torch.arange(ACTIONS, device="cuda") == action[:, None], logits, 0.0).sum(1))
                    host["action"][h].copy_(action, non_blocking=True)  # straight to where the workers read
                    done[h].record()
                done[h].synchronize()
                for k in range(WORKERS):
                    go[k][h].release()
        torch.cuda.synchronize()
        roll["alive"][-1] = 1
        advantage, last = torch.zeros_like(roll["reward"]), torch.zeros(HALVES, N, device="cuda")
        for t in reversed(range(horizon - 1)):
            delta = roll["reward"][t] + 0.97 * roll["value"][t + 1] * roll["alive"][t] - roll["value"][t]
            last = delta + 0.97 * 0.9 * roll["alive"][t] * last
            advantage[t] = last
        goal = advantage + roll["value"]
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-5)
        flat = {k: v.flatten(0, 2) for k, v in {**roll, "advantage": advantage, "goal": goal}.items()}
        order = torch.randperm(len(goal.flatten()), device="cuda", generator=gen)
        losses = []
        for start in range(0, len(order) - M + 1, M):
            for k in static:
                torch.index_select(flat[k], 0, order[start : start + M], out=static[k])
            graph.replay()
            losses.append(loss_out.clone())
        opt.param_groups[0]["lr"].mul_(0.9)
        losses = torch.stack(losses)
        print("iteration", it, "reward %.3f" % roll["reward"][:-1].mean().item(), "loss %.4f" % losses.mean().item(), digest(roll["action"], losses), digest(*agent.parameters()))
        del roll, flat, advantage, goal, delta, last, logits, value, action, noise
        del pool

    try:  # per-world sensitivities of the policy and an ensemble of values at once
        stacked, buffers = torch.func.stack_module_state(list(agent.values))
        base = agent.values[0]
        call = lambda p, x: torch.func.functional_call(base, p, (x,))[..., 0]
        x = torch.from_numpy(np.random.default_rng(3).standard_normal((200, OBS), dtype=np.float32)).cuda()
        every = torch.func.vmap(call, in_dims=(0, None))(stacked, x)
        jac = torch.func.vmap(torch.func.jacrev(lambda o: agent.policy(agent.body(o))))(x)
        hess = torch.func.vmap(torch.func.hessian(lambda o: call({k: v[0] for k, v in stacked.items()}, o)))(x[:50])
        print("functional", digest(every, jac, hess))
    except Exception as e:
        print("skipped: functional", type(e).__name__, str(e).splitlines()[:1])

    torch.cuda.synchronize()
    stop.value = 1
    for k in range(WORKERS):
        for h in range(HALVES):
            go[k][h].release()
    for p in procs:
        p.join(20)
    for v in views.values():
        rt.cudaHostUnregister(v.ctypes.data)


main()
