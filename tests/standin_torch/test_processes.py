"""Several processes: memory shared through CUDA IPC, and distributed training."""

from __future__ import annotations

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from scenario import scenario
from torch.nn.parallel import DistributedDataParallel


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def writes_fours(queue: mp.Queue, done: mp.Queue) -> None:
    shared = queue.get(timeout=60)
    seen = shared.tolist()
    shared.copy_(torch.full((10,), 4.0))
    torch.cuda.synchronize()
    del shared
    done.put(seen)


@scenario(fresh=True)
def test_a_tensor_shared_by_two_processes() -> None:
    context = mp.get_context("spawn")
    queue, done = context.Queue(), context.Queue()
    child = context.Process(target=writes_fours, args=(queue, done), daemon=True)
    child.start()
    shared = torch.arange(10.0).cuda()
    queue.put(shared)
    assert done.get(timeout=120) == list(range(10))
    child.join(60)
    assert child.exitcode == 0
    assert shared.tolist() == [4.0] * 10


def join(backend: str, rank: int, world: int, port: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group(backend, rank=rank, world_size=world)


@scenario()
def test_nccl_of_one_rank() -> None:
    join("nccl", 0, 1, free_port())
    block = torch.ones(10).cuda()
    dist.all_reduce(block)
    gathered = [torch.empty(10, device="cuda")]
    dist.all_gather(gathered, block)
    assert gathered[0].tolist() == [1.0] * 10
    model = DistributedDataParallel(torch.nn.Linear(8, 8).cuda())
    model(torch.randn(4, 8).cuda()).sum().backward()
    assert model.module.weight.grad is not None
    torch.cuda.synchronize()
    dist.destroy_process_group()


def trains_with_gloo(rank: int, port: str) -> None:
    join("gloo", rank, 2, port)
    model = DistributedDataParallel(torch.nn.Linear(8, 8).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.randn(4, 8).cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    block = torch.full((10,), float(rank + 1)).cuda()
    dist.all_reduce(block)
    assert block.tolist() == [3.0] * 10
    dist.destroy_process_group()


@scenario(fresh=True)
def test_gloo_of_two_ranks() -> None:
    mp.spawn(trains_with_gloo, args=(free_port(),), nprocs=2)
