# Scatter, gather, sorting, random numbers of many kinds, int8 and float8, complex numbers, sparse tensors, CPU interplay
import torch

torch.manual_seed(16)
g = torch.Generator("cuda").manual_seed(7)
x = torch.rand(1000, 64, device="cuda", generator=g)
index = torch.randint(0, 50, (1000,), device="cuda", generator=g)
print("scatter", torch.zeros(50, 64, device="cuda").index_reduce_(0, index, x, "amax").sum().item() > 0)
print("top", x.flatten().topk(5).indices.tolist(), x.flatten().kthvalue(77).indices.item(), x.argsort(0)[:3, 0].tolist())
print("unique", [t.shape[0] for t in index.unique(return_inverse=True, return_counts=True)], index.bincount().max().item(), torch.histc(x, 16).sum().item())
print("random", torch.randperm(20, device="cuda", generator=g).tolist(), torch.poisson(x[:2, :4] * 9, generator=g).int().tolist())
print("int8", torch._int_mm(torch.ones(32, 64, dtype=torch.int8, device="cuda"), torch.ones(64, 32, dtype=torch.int8, device="cuda")).sum().item())
a, one = torch.ones(32, 32, device="cuda").to(torch.float8_e4m3fn), torch.tensor(1.0, device="cuda")
print("float8", torch._scaled_mm(a, a.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16).float().sum().item())
print("complex", round(torch.linalg.norm(torch.fft.rfft2(x)).item(), 1), round(torch.stft(x[:, 0], 64, return_complex=True, window=torch.hann_window(64, device="cuda")).abs().sum().item(), 1))
print("linear", round(torch.linalg.cholesky(x.T @ x + torch.eye(64, device="cuda")).diagonal().sum().item(), 3), round(torch.linalg.eigvalsh(x.T @ x)[-1].item(), 1), round(torch.linalg.lstsq(x, x[:, :1]).solution[0].item(), 4))
sparse = torch.sparse_coo_tensor(torch.stack([index, index.flip(0)]), x[:, 0], (50, 50)).coalesce()
print("sparse", sparse._nnz(), round((sparse @ x[:50]).sum().item(), 2))
print("masked", torch.where(x > 0.5, x, 0).masked_select(x > 0.99).numel(), x[x[:, 0] > 0.9].shape[0], torch.nonzero(x > 0.999).shape[0])
