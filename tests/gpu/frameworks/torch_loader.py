# Data from worker processes through pinned memory, copied ahead on a stream of its own; checkpoints written and read
import io
import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, n):
        return torch.full((64,), float(n)), n % 7


if __name__ == "__main__":
    torch.manual_seed(14)
    model = torch.nn.Linear(64, 7).cuda()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    ahead = torch.cuda.Stream()
    total = torch.zeros((), device="cuda")
    for x, y in DataLoader(Numbers(), batch_size=32, num_workers=2, pin_memory=True, prefetch_factor=2):
        with torch.cuda.stream(ahead):
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        torch.cuda.current_stream().wait_stream(ahead)
        for copied in (x, y):
            copied.record_stream(torch.cuda.current_stream())
        loss = torch.nn.functional.cross_entropy(model(x / 256), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += x.sum() + loss.detach()
    kept = io.BytesIO()
    torch.save(model.state_dict(), kept)
    kept.seek(0)
    again = torch.nn.Linear(64, 7).cuda()
    again.load_state_dict(torch.load(kept, map_location="cuda"))
    print(round(total.item(), 2), torch.equal(again.weight, model.weight))
