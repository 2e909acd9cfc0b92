"""CUDA graphs: private pools, what they share, and how they end."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from facts import empty
from pair import both, ours


def full(value: float, length: int = 1000) -> torch.Tensor:
    return torch.full((length,), value)


def pools() -> set[tuple[int, int]]:
    return {tuple(segment["segment_pool_id"]) for segment in torch.cuda.memory_snapshot()}


def reserved(pool: tuple[int, int]) -> int:
    return sum(s["total_size"] for s in torch.cuda.memory_snapshot() if tuple(s["segment_pool_id"]) == tuple(pool))


@both()
def test_replays_after_other_allocations() -> list[Any]:
    source = full(1).cuda()
    copied = torch.empty_like(source)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        cloned = source.clone()
        middle = cloned.clone()
        copied.copy_(middle)
        del middle
    out: list[Any] = [tuple(graph.pool()) in pools(), (0, 0) in pools()]
    for value in (3.0, 4.0):
        # What the program allocates meanwhile must not lie where the graph writes.
        others = [full(value + 10).cuda() for _ in range(50)]
        source.copy_(full(value))
        graph.replay()
        torch.cuda.synchronize()
        out += [copied[0].item(), cloned[-1].item(), {other[500].item() for other in others}]
    return out


@both()
def test_empty_cache_leaves_graphs_alone() -> list[Any]:
    source = full(1).cuda()
    copied = torch.empty_like(source)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        copied.copy_(source.clone())
    torch.cuda.empty_cache()
    source.copy_(full(6))
    graph.replay()
    out: list[Any] = [copied[0].item(), tuple(graph.pool()) in pools()]
    graph.reset()
    del graph
    torch.cuda.empty_cache()
    return [*out, pools()]


@both()
def test_graphs_share_a_pool() -> list[Any]:
    pool = torch.cuda.graph_pool_handle()
    source = full(1).cuda()
    graphs, results = [], []
    for _ in range(3):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            results.append(source.clone())
        graphs.append(graph)
    out: list[Any] = [[tuple(graph.pool()) == tuple(pool) for graph in graphs], len(pools())]
    for value, graph, result in zip((2.0, 3.0, 4.0), graphs, results):
        source.copy_(full(value))
        graph.replay()
        out.append(result[0].item())
    out.append([result[0].item() for result in results])
    del graph, graphs[:2]
    source.copy_(full(9))
    graphs[0].replay()
    return [*out, results[2][0].item()]


@both()
def test_capture_while_other_streams_allocate() -> list[Any]:
    source = full(1).cuda()
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    held = []
    with torch.cuda.graph(graph, capture_error_mode="relaxed"):
        inside = source.clone()
        with torch.cuda.stream(side):
            held += [empty(3 << 20), empty(1000)]
            del held[0]
        again = inside.clone()
    ids = {
        block["address"]: tuple(segment["segment_pool_id"])
        for segment in torch.cuda.memory_snapshot()
        for block in segment["blocks"]
    }
    out = [ids[tensor.data_ptr()] == tuple(graph.pool()) for tensor in (source, held[0], inside, again)]
    graph.replay()
    return [*out, again[0].item()]


@both()
def test_graphed_callables() -> list[Any]:
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16)).cuda()
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(4, 16).cuda(),))
    for _ in range(3):
        graphed(torch.randn(4, 16).cuda()).sum().backward()
    return [model[0].weight.grad.shape, len(pools())]


@both()
def test_a_capture_that_fails_leaves_the_allocator_working() -> list[Any]:
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError):
        with torch.cuda.graph(graph):
            empty(1000)
            torch.cuda.synchronize()
    del graph
    torch.cuda.synchronize()
    return [empty(5 << 20).nbytes, full(3).cuda()[0].item()]


@both(REPRIEVE_SIM_CAPACITY=str(256 << 20), REPRIEVE_HEADROOM="1")
def test_out_of_memory_in_a_capture() -> list[Any]:
    with pytest.raises(torch.OutOfMemoryError):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            empty(300 << 20)
    torch.cuda.synchronize()
    return [empty(100 << 20).nbytes, torch.cuda.memory_stats()["num_ooms"]]


@pytest.mark.parametrize("order", list(itertools.permutations((30, 40, 60))))
@ours()
def test_graphs_of_any_sizes_in_one_pool_do_not_grow_it(order: tuple[int, ...]) -> None:
    """Better than torch's: free memory of the pool below and above a live block serves a larger request of it."""
    pool = torch.cuda.graph_pool_handle()
    graphs, kept = [], []
    for size in order:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            parts = [empty(size << 19), empty(1 << 20), empty(size << 19)]
            kept.append(parts[1])
            del parts
        graphs.append(graph)
    assert reserved(pool) <= (max(order) + 8 + len(order) * 2) << 20


@ours()
def test_the_chunks_of_a_pool_serve_a_larger_block() -> None:
    pool = torch.cuda.graph_pool_handle()
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first, pool=pool):
        low, between, high = empty(20 << 20), empty(2 << 20), empty(20 << 20)
        del low, high
    before = reserved(pool)
    with torch.cuda.graph(second, pool=pool):
        whole = empty(40 << 20)
    assert torch.cuda.memory_reserved() <= before + (2 << 20)
    assert whole.nbytes + between.nbytes == 42 << 20
