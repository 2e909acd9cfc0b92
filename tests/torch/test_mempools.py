"""torch.cuda.MemPool."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from facts import counters, empty
from pair import both

SMALL = {"REPRIEVE_SIM_CAPACITY": str(256 << 20), "REPRIEVE_HEADROOM": "1"}


def pool_of(tensor: torch.Tensor) -> tuple[int, int] | None:
    for segment in torch.cuda.memory_snapshot():
        if any(block["address"] == tensor.data_ptr() for block in segment["blocks"]):
            return tuple(segment["segment_pool_id"])
    return None


def pools() -> set[tuple[int, int]]:
    return {tuple(segment["segment_pool_id"]) for segment in torch.cuda.memory_snapshot()}


@both()
def test_allocations_go_to_the_pool() -> list[Any]:
    pool = torch.cuda.MemPool()
    before = empty(1000)
    with torch.cuda.use_mem_pool(pool):
        inside = [empty(1000), empty(3 << 20)]
    after = empty(1000)
    out: list[Any] = [pool_of(tensor) == tuple(pool.id) for tensor in (before, *inside, after)]
    out += [len(pool.snapshot()) > 0, {tuple(segment["segment_pool_id"]) == tuple(pool.id) for segment in pool.snapshot()}]
    return [*out, pool.use_count(), counters()]


@both()
def test_nesting() -> list[Any]:
    outer, inner = torch.cuda.MemPool(), torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(outer):
        first = empty(1000)
        with torch.cuda.use_mem_pool(inner):
            second = empty(1000)
        third = empty(1000)
    names = {tuple(outer.id): "outer", tuple(inner.id): "inner", (0, 0): "default"}
    return [names[pool_of(tensor) or (0, 0)] for tensor in (first, second, third, empty(1000))]


@both()
def test_the_same_pool_twice() -> list[Any]:
    pool = torch.cuda.MemPool()
    held = []
    counts = [pool.use_count()]
    for _ in range(3):
        with torch.cuda.use_mem_pool(pool):
            counts.append(pool.use_count())
            held.append(empty(1000))
        counts.append(pool.use_count())
    return [counts, [pool_of(tensor) == tuple(pool.id) for tensor in held]]


@both()
def test_release() -> list[Any]:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = empty(3 << 20)
    address = inside.data_ptr()
    del pool
    torch.cuda.empty_cache()
    out: list[Any] = [inside.data_ptr() == address, torch.cuda.memory_allocated() > 0]
    del inside
    torch.cuda.empty_cache()
    return [*out, pools(), torch.cuda.memory_reserved(), counters()]


@both()
def test_empty_cache_of_a_living_pool() -> list[Any]:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = empty(3 << 20)
    del inside
    outside = empty(1000)
    torch.cuda.empty_cache()
    return [tuple(pool.id) in pools(), (0, 0) in pools(), outside.nbytes]


@both()
def test_other_threads_are_not_routed() -> list[Any]:
    import threading

    pool = torch.cuda.MemPool()
    seen: list[torch.Tensor] = []
    with torch.cuda.use_mem_pool(pool):
        thread = threading.Thread(target=lambda: seen.append(empty(1000)))
        thread.start()
        thread.join()
        seen.append(empty(1000))
    return [pool_of(tensor) == tuple(pool.id) for tensor in seen]


@both()
def test_streams_in_a_pool() -> list[Any]:
    pool = torch.cuda.MemPool()
    side = torch.cuda.Stream()
    with torch.cuda.use_mem_pool(pool), torch.cuda.stream(side):
        inside = empty(1000)
    with torch.cuda.stream(side):
        outside = empty(1000)
    return [pool_of(tensor) == tuple(pool.id) for tensor in (inside, outside)]


@both()
def test_an_exception_ends_the_routing() -> list[Any]:
    pool = torch.cuda.MemPool()
    with pytest.raises(KeyError):
        with torch.cuda.use_mem_pool(pool):
            raise KeyError("of the user's")
    tensor = empty(1000)
    return [pool_of(tensor) == (0, 0), pool.use_count()]


@both(**SMALL)
def test_use_on_oom() -> list[Any]:
    pool = torch.cuda.MemPool(use_on_oom=True)
    with torch.cuda.use_mem_pool(pool):
        inside = empty(150 << 20)
    del inside
    # Nowhere else is there so much.
    outside = empty(140 << 20)
    out: list[Any] = [pool_of(outside) == tuple(pool.id)]
    other = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(other):
        kept = empty(60 << 20)
    del kept
    with pytest.raises(torch.OutOfMemoryError):
        empty(110 << 20)
    return [*out, torch.cuda.memory_stats()["num_ooms"]]


@both()
def test_no_split() -> list[Any]:
    """Accepted. How the pool's memory is cut into segments is each allocator's policy."""
    pool = torch.cuda.MemPool(no_split=True)
    with torch.cuda.use_mem_pool(pool):
        held = [empty(3 << 20), empty(3 << 20)]
    return [[pool_of(tensor) == tuple(pool.id) for tensor in held]]


@both()
def test_a_pool_for_a_graph() -> list[Any]:
    pool = torch.cuda.MemPool()
    source = torch.full((1000,), 1.0).cuda()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool.id):
        copied = source.clone()
    out: list[Any] = [pool_of(copied) == tuple(pool.id), pool.use_count()]
    del pool
    source.copy_(torch.full((1000,), 5.0))
    graph.replay()
    return [*out, copied[0].item()]


@both(REPRIEVE_SIM_DEVICES="2")
def test_a_pool_of_the_other_device() -> list[Any]:
    with torch.cuda.device(1):
        pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool, device=1):
        inside, elsewhere = empty(1000, "cuda:1"), empty(1000, "cuda:0")
    return [pool_of(tensor) == tuple(pool.id) for tensor in (inside, elsewhere)]
