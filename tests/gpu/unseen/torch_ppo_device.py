# Reinforcement learning that stays on the device: thousands of pendulums whose whole rollout (policy, noise, physics, resets, advantages)
# is one CUDA graph, PPO updates that are another (capturable Adam, rate in a tensor, early stop decided by the host), then a double DQN
# in a grid world with a prioritised replay ring on the device and uint8 pictures. Statistics go down by pinned memory and events.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import hashlib
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

NAME, TOTAL, DEV = "torch_ppo_device", hashlib.sha256(), "cuda"
N, T, BATCH = 2048, 48, 8192


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        raw = t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        h.update(raw)
        TOTAL.update(raw)
    return h.hexdigest()[:16]


class Pendulums:
    def __init__(self, gen):
        self.gen, self.span = gen, torch.tensor([math.pi, 1.0], device=DEV)
        self.state, self.age = torch.zeros(N, 2, device=DEV), torch.zeros(N, dtype=torch.int32, device=DEV)
        self.age.copy_(torch.arange(N) % 100)  # so that they do not all end at once

    def observe(self):
        a, v = self.state.unbind(1)
        return torch.stack((a.cos(), a.sin(), v / 8), 1)

    def step(self, action):
        a, v = self.state.unbind(1)
        u = action.squeeze(1).clamp(-2, 2)
        angle = torch.remainder(a + math.pi, 2 * math.pi) - math.pi
        reward = -(angle.square() + 0.1 * v.square() + 0.001 * u.square())
        v = (v + 0.05 * (15 * a.sin() + 3 * u)).clamp(-8, 8)
        fresh = (torch.rand(N, 2, device=DEV, generator=self.gen) * 2 - 1) * self.span
        done = self.age >= 99
        self.state.copy_(torch.where(done[:, None], fresh, torch.stack((a + 0.05 * v, v), 1)))
        self.age.copy_(torch.where(done, 0, self.age + 1))
        return reward, done


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.v = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.log_std = nn.Parameter(torch.zeros(1))

    def log_prob(self, obs, act):
        return (-0.5 * ((act - self.pi(obs)) / self.log_std.exp()).square() - self.log_std - 0.9189385).sum(1)


def captured(f, pool=None, gens=()):
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            f()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    for g in gens:
        graph.register_generator_state(g)
    with torch.cuda.graph(graph, pool=pool):
        f()
    return graph


def ppo():
    torch.manual_seed(10)
    gen = torch.Generator(DEV).manual_seed(11)
    env, net = Pendulums(gen), ActorCritic().to(DEV)
    lr = torch.tensor(2e-3, device=DEV)
    opt = torch.optim.Adam(net.parameters(), lr=lr, capturable=True, foreach=True)
    obs, act = torch.zeros(T, N, 3, device=DEV), torch.zeros(T, N, 1, device=DEV)
    logp, value, reward, adv = (torch.zeros(T, N, device=DEV) for _ in range(4))
    done, stats = torch.zeros(T, N, dtype=torch.bool, device=DEV), torch.zeros(4, dtype=torch.float64, device=DEV)

    @torch.no_grad()
    def rollout():
        for t in range(T):
            obs[t] = env.observe()
            act[t] = net.pi(obs[t]) + net.log_std.exp() * torch.randn(N, 1, device=DEV)  # the default generator, too
            logp[t], value[t] = net.log_prob(obs[t], act[t]), net.v(obs[t]).squeeze(1)
            r, d = env.step(act[t])
            reward[t], done[t] = r / 8, d
        last, run = net.v(env.observe()).squeeze(1), torch.zeros(N, device=DEV)
        for t in reversed(range(T)):
            live = (~done[t]).float()
            run = reward[t] + 0.97 * (last if t == T - 1 else value[t + 1]) * live - value[t] + 0.97 * 0.95 * live * run
            adv[t] = run
        stats[0], stats[1], stats[2] = reward.double().mean(), done.double().sum(), adv.double().std()

    ids, kl = torch.arange(BATCH, device=DEV), torch.zeros((), device=DEV)

    def update():
        opt.zero_grad(set_to_none=False)
        o, a, old, v, ad = (x.flatten(0, 1).index_select(0, ids) for x in (obs, act, logp, value, adv))
        ad_n = (ad - ad.mean()) / (ad.std() + 1e-6)
        new = net.log_prob(o, a)
        ratio = (new - old).exp()
        loss = -torch.min(ratio * ad_n, ratio.clamp(0.8, 1.2) * ad_n).mean() - 0.001 * net.log_std.sum()
        loss = loss + 0.5 * F.mse_loss(net.v(o).squeeze(1), ad + v)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5, foreach=True)
        opt.step()
        kl.copy_((old - new).mean().detach())

    roll = captured(rollout, gens=(gen,))
    learn = captured(update, pool=roll.pool())
    log, events, stops = torch.zeros(24, 4, dtype=torch.float64, pin_memory=True), [], 0
    for i in range(24):
        roll.replay()
        for _ in range(2):
            order = torch.randperm(N * T, device=DEV)
            for piece in order.split(BATCH):
                ids.copy_(piece)
                learn.replay()
            if kl.item() > 0.02:
                stops += 1
                lr.mul_(0.85)
                break
        stats[3] = lr.double()
        log[i].copy_(stats, non_blocking=True)
        events.append(torch.cuda.Event())
        events[-1].record()
    for i, e in enumerate(events):
        e.synchronize()
    print("ppo reward %.2f -> %.2f episodes %d" % (log[0, 0] * 8, log[-1, 0] * 8, int(log[:, 1].sum())),
          "stopped early:", stops > 0, digest(log))
    print("policy", digest(*net.parameters(), env.state, env.age, *(s["exp_avg_sq"] for s in opt.state.values())))


def pictures(pos, goal, walls):
    """uint8 pictures with three planes: where one is, where one should be, walls."""
    n, rows = pos.shape[0], torch.arange(pos.shape[0], device=DEV)
    x = torch.zeros(n, 3, 10, 10, dtype=torch.uint8, device=DEV)
    x[rows, 0, pos[:, 0], pos[:, 1]] = 255
    x[rows, 1, goal[:, 0], goal[:, 1]] = 255
    x[:, 2] = walls.to(torch.uint8) * 128
    return x


def dqn():
    torch.manual_seed(20)
    worlds, room, moves = 64, 8192, torch.tensor([[0, 1], [1, 0], [0, -1], [-1, 0]], device=DEV)
    walls = torch.zeros(10, 10, dtype=torch.bool, device=DEV)
    walls[0], walls[9], walls[:, 0], walls[:, 9], walls[4, 2:7] = True, True, True, True, True
    free = walls.logical_not().nonzero()
    gen = torch.Generator(DEV).manual_seed(21)
    place = lambda n: free[torch.randint(free.shape[0], (n,), device=DEV, generator=gen)]
    make = lambda: nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(),
                                 nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 4)).to(DEV)
    net, target = make(), make()
    target.load_state_dict(net.state_dict())
    opt = torch.optim.RMSprop(net.parameters(), lr=5e-4, foreach=True)
    see = {k: torch.zeros(room, 3, 10, 10, dtype=torch.uint8, device=DEV) for k in ("now", "then")}
    act, rew, end = torch.zeros(room, dtype=torch.int64, device=DEV), torch.zeros(room, device=DEV), torch.zeros(room, device=DEV)
    weight = torch.zeros(room, dtype=torch.int64, device=DEV)  # priorities as whole numbers: their sums are exact
    pos, goal, age = place(worlds), place(worlds), torch.zeros(worlds, dtype=torch.int64, device=DEV)
    losses, reached = [], torch.zeros((), dtype=torch.int64, device=DEV)
    for step in range(300):
        x = pictures(pos, goal, walls)
        with torch.no_grad():
            q = net(x.float() / 255)
        wild = torch.rand(worlds, device=DEV, generator=gen) < max(0.1, 1 - step / 150)
        a = torch.where(wild, torch.randint(4, (worlds,), device=DEV, generator=gen), q.argmax(1))
        to = pos + moves[a]
        pos = torch.where(walls[to[:, 0], to[:, 1]][:, None], pos, to)
        won = (pos == goal).all(1)
        age, reached = age + 1, reached + won.sum()
        at = (torch.arange(worlds, device=DEV) + step * worlds) % room
        see["now"][at], see["then"][at] = x, pictures(pos, goal, walls)
        act[at], rew[at], end[at] = a, won.float() - 0.02, won.float()
        weight[at] = 1 << 12
        renew = won | (age > 40)
        pos, goal = torch.where(renew[:, None], place(worlds), pos), torch.where(renew[:, None], place(worlds), goal)
        age = age.masked_fill(renew, 0)
        if step < 20:
            continue
        total = weight.cumsum(0)
        dice = (torch.rand(128, device=DEV, generator=gen, dtype=torch.float64) * total[-1]).long().clamp(max=total[-1] - 1)
        pick = torch.searchsorted(total, dice, right=True)
        then = see["then"][pick].float() / 255
        with torch.no_grad():
            best = net(then).argmax(1, keepdim=True)
            want = rew[pick] + 0.95 * (1 - end[pick]) * target(then).gather(1, best).squeeze(1)
        off = (net(see["now"][pick].float() / 255) * F.one_hot(act[pick], 4)).sum(1) - want
        loss = F.huber_loss(off, torch.zeros_like(off))
        opt.zero_grad()
        loss.backward()
        opt.step()
        weight.scatter_reduce_(0, pick, (off.detach().abs() * 4096).long() + 16, "amax", include_self=False)  # picked twice: the larger
        if step % 20 == 0:
            for p, t in zip(net.parameters(), target.parameters()):
                t.data.lerp_(p.data, 0.5)
            losses.append(loss.detach())
    print("dqn reached", int(reached), "ring", digest(weight, *see.values()), "net", digest(*net.parameters(), *losses))


torch.use_deterministic_algorithms(True, warn_only=True)
for f in (ppo, dqn):
    try:
        f()
    except Exception as e:
        print("skipped: %s: %s" % (f.__name__, type(e).__name__))
print("%s: checksum %s" % (NAME, TOTAL.hexdigest()[:32]))
