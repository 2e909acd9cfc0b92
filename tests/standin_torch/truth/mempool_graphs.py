"""Memory pools, CUDA graphs that share a pool, graphed callables, and blocks used on a second stream."""

from figures import print_figures, start

import torch
from torch import nn


def mempools() -> None:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (1 << 10, 700_000, 3 << 20, 30 << 20)]
        del kept[1:3]
        torch.empty(2 << 20, dtype=torch.uint8, device="cuda")
    outside = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
    del kept, outside, pool


def graphs() -> list[object]:
    """What must stay alive until the figures are taken."""
    static = torch.ones(256, 512, device="cuda")
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512)).cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(static).sum().backward()
            model.zero_grad(set_to_none=True)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()

    first = torch.cuda.CUDAGraph()
    with torch.cuda.graph(first):
        hidden = model(static)
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=first.pool()):
        doubled = hidden * 2 + torch.randn_like(hidden)
    for _ in range(4):
        first.replay()
        second.replay()
    torch.cuda.synchronize()

    callable_ = torch.cuda.make_graphed_callables(model, (static.clone().requires_grad_(),))
    for _ in range(3):
        callable_(static.clone().requires_grad_()).sum().backward()
    torch.cuda.synchronize()
    return [first, second, hidden, doubled, callable_, model]


def second_stream() -> None:
    side = torch.cuda.Stream()
    for size in (1 << 20, 5 << 20, 12 << 20):
        block = torch.zeros(size, dtype=torch.uint8, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            block.add_(1)
            torch.empty(size, dtype=torch.uint8, device="cuda")
        block.record_stream(side)
        del block
        # Whether the block is free again must not depend on how fast the GPU is.
        torch.cuda.synchronize()


def main() -> None:
    start()
    torch.manual_seed(0)
    mempools()
    alive = graphs()
    second_stream()
    torch.cuda.empty_cache()
    torch.empty(6 << 20, dtype=torch.uint8, device="cuda")
    print_figures()
    del alive


if __name__ == "__main__":
    main()
