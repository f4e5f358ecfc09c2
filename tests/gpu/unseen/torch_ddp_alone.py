# Distributed training as it is written for many ranks, run by one: NCCL and Gloo groups, collectives (queued, asynchronous, in a graph),
# DistributedDataParallel with accumulation and communication hooks, an optimizer with sharded state, fully sharded modules with and
# without offload to the CPU, tensors with placements, and distributed checkpoints in files.
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
for key, value in (("NCCL_SOCKET_IFNAME", "lo"), ("GLOO_SOCKET_IFNAME", "lo"), ("NCCL_IB_DISABLE", "1"),
                   ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")):
    os.environ.setdefault(key, value)
import hashlib
import tempfile
from datetime import timedelta
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

NAME, TOTAL, DEV = "torch_ddp_alone", hashlib.sha256(), torch.device("cuda", 0)


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        t = t.full_tensor() if hasattr(t, "full_tensor") else t
        raw = t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        h.update(raw)
        TOTAL.update(raw)
    return h.hexdigest()[:16]


def data(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEV)


def collectives():
    x, out = data(1, 1 << 20), []
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.AVG):
        y = x * 2
        dist.all_reduce(y, op)
        out.append(y)
    works = []
    for i in range(12):  # asynchronous, waited for in another order
        y = (x[i * 1000:(i + 40) * 1000] + i).contiguous()
        z = torch.empty_like(y)
        works.append((dist.all_gather_into_tensor(z, y, async_op=True) if i % 2 else dist.reduce_scatter_tensor(z, y, async_op=True), y, z))
    for work, y, z in reversed(works):
        work.wait()
        out.append(z - y / 2)
    z = torch.empty_like(x)
    dist.all_to_all_single(z, x)
    dist.broadcast(z, 0)
    parts = [torch.empty_like(x)]
    dist.all_gather(parts, z)
    dist.barrier()
    words = ["some", {"thing": 3}]
    dist.broadcast_object_list(words, 0)
    print("collectives", digest(*out, *parts), words)


def collectives_in_a_graph():
    x, out, stream, graph = data(2, 4096), torch.zeros(4096, device=DEV), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    for _ in range(2):
        with torch.cuda.stream(stream):
            dist.all_reduce(x)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        y = x.sin()
        z = torch.empty_like(y)
        dist.reduce_scatter_tensor(z, y)
        dist.all_reduce(z)
        out.add_(z)
        x.mul_(0.9)
    for _ in range(20):
        graph.replay()
    print("collectives in a graph", digest(out, x))


def gloo():
    group = dist.new_group([0], backend="gloo", timeout=timedelta(seconds=60))
    a, b = torch.arange(10.0), data(3, 5000)
    dist.all_reduce(a, group=group)
    work = dist.all_reduce(b, group=group, async_op=True)  # a tensor of the device: by way of the host
    work.wait()
    print("gloo", digest(a, b))


class Net(nn.Module):
    def __init__(self, norm=nn.BatchNorm2d):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), norm(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), norm(64), nn.ReLU())
        self.fc, self.unused = nn.Sequential(nn.Linear(64 * 64, 512), nn.GELU(), nn.Linear(512, 10)), nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(self.conv(x).flatten(1))


def loader(seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 10, (640,), generator=g)
    x = torch.randn(640, 3, 32, 32, generator=g) + y.view(-1, 1, 1, 1) / 10
    parts = TensorDataset(x, y)
    sampler = DistributedSampler(parts, num_replicas=1, rank=0, shuffle=True, seed=seed)
    return DataLoader(parts, 64, sampler=sampler, pin_memory=True), sampler


def halved(state, bucket):  # a hook of our own: the bucket travels as bf16 and comes back on the future's stream
    work = dist.all_reduce(bucket.buffer().to(torch.bfloat16), async_op=True).get_future()
    return work.then(lambda f: bucket.buffer().copy_(f.value()[0]))


def ddp(name, hook=None, sharded=False, **kw):
    torch.manual_seed(4)
    net = nn.SyncBatchNorm.convert_sync_batchnorm(Net()).to(DEV)
    model = DDP(net, device_ids=[0], bucket_cap_mb=1, find_unused_parameters=not kw.get("static_graph", False), **kw)
    if hook == "powersgd":
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as ps
        state = ps.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=4, random_seed=6)
        model.register_comm_hook(state, ps.powerSGD_hook)
    elif hook:
        model.register_comm_hook(None, hook)
    if sharded:
        from torch.distributed.optim import ZeroRedundancyOptimizer
        opt = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=1e-3)
    else:
        opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    batches, sampler = loader(9)
    losses = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(batches):
            x, y = x.to(DEV, non_blocking=True), y.to(DEV, non_blocking=True)
            last = i % 2 == 1 or kw.get("static_graph", False)
            model.require_backward_grad_sync = last  # what no_sync() does
            loss = F.cross_entropy(model(x), y) / 2
            loss.backward()
            if last:
                nn.utils.clip_grad_norm_([p for p in model.parameters() if p.grad is not None], 2.0)
                opt.step()
                opt.zero_grad(set_to_none=True)
                losses.append(loss.detach())
    print("ddp", name, "%.4f -> %.4f" % (losses[0], losses[-1]), digest(*model.parameters(), *losses))


def fsdp(offload):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
    torch.manual_seed(5)
    layers = [nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(4)]
    net = nn.Sequential(*layers, nn.Linear(256, 8)).to(DEV)
    kw = dict(mesh=init_device_mesh("cuda", (1,)), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    if offload:
        kw["offload_policy"] = CPUOffloadPolicy(pin_memory=True)
    for layer in layers:
        fully_shard(layer, reshard_after_forward=True, **kw)
    fully_shard(net, **kw)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for i in range(6):
        loss = (net(data(20 + i % 3, 64, 256)).float() - data(30 + i % 3, 64, 8)).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
    print("fully sharded, offload", offload, "%.4f" % loss.item(), digest(*net.parameters()))
    return net, opt


def placements():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cuda", (1,), mesh_dim_names=("tp",))
    a, b = distribute_tensor(data(6, 128, 96), mesh, [Shard(0)]), distribute_tensor(data(7, 96, 64), mesh, [Replicate()])
    c = (a @ b).redistribute(mesh, [Shard(1)]).relu()
    torch.manual_seed(8)
    mlp = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).to(DEV)
    mlp = parallelize_module(mlp, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    y = mlp(c.full_tensor())
    y.square().mean().backward()
    print("placements", digest(c, y, *(p.grad for p in mlp.parameters())))


def checkpoints(folder, net, opt):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    model_state, opt_state = get_state_dict(net, opt)
    before = digest(*net.parameters())
    dcp.save({"model": model_state, "opt": opt_state}, checkpoint_id=os.path.join(folder, "dcp"))
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(0.0)
    model_state, opt_state = get_state_dict(net, opt)
    dcp.load({"model": model_state, "opt": opt_state}, checkpoint_id=os.path.join(folder, "dcp"))
    set_state_dict(net, opt, model_state_dict=model_state, optim_state_dict=opt_state)
    print("distributed checkpoint", digest(*net.parameters()) == before)


def part(f, *a, **kw):
    try:
        return f(*a, **kw)
    except Exception as e:
        print("skipped: %s: %s" % (f.__name__, type(e).__name__))


def main(folder):
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.cuda.set_device(DEV)
    dist.init_process_group("nccl", init_method="file://%s/store" % folder, rank=0, world_size=1, device_id=DEV,
                            timeout=timedelta(seconds=120))
    print("world", dist.get_world_size(), dist.get_backend())
    for f in (collectives, gloo):
        part(f)
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks
    part(ddp, "plain")
    part(ddp, "views and a static graph", gradient_as_bucket_view=True, static_graph=True)
    part(ddp, "fp16 hook", hooks.fp16_compress_hook)
    part(ddp, "own hook", halved, gradient_as_bucket_view=True)
    part(ddp, "PowerSGD", "powersgd")
    part(ddp, "sharded optimizer", sharded=True)
    made = part(fsdp, False)
    part(fsdp, True)
    part(placements)
    if made:
        part(checkpoints, folder, *made)
    part(collectives_in_a_graph)
    dist.destroy_process_group()


with tempfile.TemporaryDirectory() as temporary:
    main(temporary)
print("%s: checksum %s" % (NAME, TOTAL.hexdigest()[:32]))
