# cuFFT, cuSOLVER, cuSPARSE, cuBLAS, sorts and scans through PyTorch
import torch

torch.manual_seed(3)
torch.use_deterministic_algorithms(False)
x = torch.randn(4096, device="cuda")
print("fft", round(torch.fft.fft(x).abs().sum().item(), 2))
a = torch.randn(128, 128, device="cuda")
print("solve", round(torch.linalg.solve(a @ a.T + 128 * torch.eye(128, device="cuda"), a).sum().item(), 3))
print("svd", round(torch.linalg.svdvals(a).sum().item(), 2))
sparse = (a * (a > 1)).to_sparse_csr()
print("sparse", round((sparse @ a).sum().item(), 2))
keys = torch.randint(0, 1 << 30, (1 << 20,), device="cuda")
print("sort", keys.sort().values[:3].tolist(), keys.unique().numel(), keys.cumsum(0)[-1].item())
print("half", round((a.half() @ a.half()).float().sum().item(), 1), round((a.bfloat16() @ a.bfloat16()).float().sum().item(), 1))
print("attention", round(torch.nn.functional.scaled_dot_product_attention(*(a.half().view(1, 4, 32, 128) for _ in range(3))).sum().item(), 1))
