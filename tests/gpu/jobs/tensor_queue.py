# Tensors that go to a worker and back through CUDA's memory between processes, as torch.multiprocessing has it
import torch
import torch.multiprocessing as mp

TURNS = 6


def work(todo, done):
    while (job := todo.get()) is not None:
        turn, values = job
        values.mul_(3).add_(turn)
        torch.cuda.synchronize()
        del values, job
        done.put(turn)


if __name__ == "__main__":
    context = mp.get_context("spawn")
    todo, done = context.Queue(), context.Queue()
    worker = context.Process(target=work, args=(todo, done))
    worker.start()
    total = 0
    for turn in range(TURNS):
        values = torch.arange(50_000, device="cuda", dtype=torch.int64) + turn
        torch.cuda.synchronize()
        todo.put((turn, values))
        assert done.get() == turn
        assert torch.equal(values.cpu(), 3 * (torch.arange(50_000) + turn) + turn)
        total += int(values.sum())
        del values
    todo.put(None)
    worker.join()
    print(total)
