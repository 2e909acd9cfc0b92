"""torch's own allocators: statistics, snapshots, pools, and running out of memory as on a GPU."""

from __future__ import annotations

import pytest
import torch
from scenario import scenario

import sim

CAPACITY = 256 << 20
SMALL = {"REPRIEVE_SIM_CAPACITY": str(CAPACITY)}


def empty(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


@scenario()
def test_statistics_and_snapshot() -> None:
    torch.cuda.memory._record_memory_history(max_entries=1000)
    kept = [empty(4 << 20) for _ in range(5)]
    del kept[1:3]
    statistics = torch.cuda.memory_stats()
    assert statistics["active_bytes.all.current"] == 3 * (4 << 20)
    assert statistics["reserved_bytes.all.current"] == sim.used_bytes(0)
    snapshot = torch.cuda.memory._snapshot()
    actions = [entry["action"] for entry in snapshot["device_traces"][0]]
    assert actions.count("alloc") == 5
    assert actions.count("free_completed") == 2
    assert snapshot["device_traces"][0][0]["frames"]
    assert "PyTorch CUDA memory summary" in torch.cuda.memory_summary()


@scenario()
def test_memory_goes_back_to_the_device() -> None:
    block = empty(100 << 20)
    assert sim.used_bytes(0) >= block.nbytes
    del block
    torch.cuda.empty_cache()
    assert sim.used_bytes(0) == 0


@scenario()
def test_mempool() -> None:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = empty(3 << 20)
    outside = empty(3 << 20)
    pools = {tuple(segment["segment_pool_id"]) for segment in torch.cuda.memory_snapshot()}
    assert pools == {(0, 0), tuple(pool.id)}
    assert inside.data_ptr() != outside.data_ptr()
    del inside, pool
    torch.cuda.empty_cache()
    assert {tuple(segment["segment_pool_id"]) for segment in torch.cuda.memory_snapshot()} == {(0, 0)}


@scenario(**SMALL)
def test_out_of_memory() -> None:
    seen: list[tuple[int, ...]] = []
    kept = empty(100 << 20)
    torch._C._cuda_attach_out_of_memory_observer(lambda *arguments: seen.append(arguments))
    with pytest.raises(torch.OutOfMemoryError) as caught:
        empty(300 << 20)
    assert str(caught.value).startswith(
        "CUDA out of memory. Tried to allocate 300.00 MiB. GPU 0 has a total capacity of 256.00 MiB of which 156.00 MiB"
    )
    assert torch.cuda.memory_stats()["num_ooms"] == 1
    assert [(device, wanted) for device, wanted, _, _ in seen] == [(0, 300 << 20)]
    assert empty(100 << 20).nbytes == kept.nbytes


@scenario(**SMALL)
def test_memory_in_the_way_is_freed_and_the_allocation_repeated() -> None:
    del (block := [empty(200 << 20)])[:]
    assert empty(180 << 20).nbytes == 180 << 20
    block.append(empty(50 << 20))
    del block[:]
    assert torch.cuda.memory_stats()["num_ooms"] == 0
    assert empty(240 << 20).nbytes == 240 << 20
    assert torch.cuda.memory_stats()["num_alloc_retries"] >= 1


@scenario(**SMALL)
def test_memory_fraction() -> None:
    torch.cuda.set_per_process_memory_fraction(0.5)
    with pytest.raises(torch.OutOfMemoryError, match="128.00 MiB allowed"):
        empty(200 << 20)


@scenario()
def test_a_call_that_fails_is_an_error_of_torchs() -> None:
    sim.fail("malloc", 0, 2, 2)  # CUDA_ERROR_OUT_OF_MEMORY, now and when torch has freed what it can
    with pytest.raises(torch.OutOfMemoryError):
        empty(1 << 20)
    assert empty(1 << 20).nbytes == 1 << 20


@scenario()
def test_memory_that_something_else_holds() -> None:
    total = torch.cuda.get_device_properties(0).total_memory
    sim.set_foreign_use(0, total - (64 << 20))
    assert torch.cuda.mem_get_info()[0] == 64 << 20
    with pytest.raises(torch.OutOfMemoryError):
        empty(100 << 20)


@scenario(fresh=True, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True", **SMALL)
def test_expandable_segments_out_of_memory() -> None:
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory. Tried to allocate 300.00 MiB"):
        empty(300 << 20)
    host = torch.arange(10 << 20, dtype=torch.int32)
    block = host.cuda()
    assert torch.equal(block.cpu(), host)
    del block
    torch.cuda.empty_cache()
    assert sim.used_bytes(0) == 0


@scenario(fresh=True, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync", **SMALL)
def test_cuda_malloc_async_out_of_memory() -> None:
    with pytest.raises(torch.OutOfMemoryError):
        empty(300 << 20)
    kept = empty(100 << 20)
    assert torch.cuda.memory_allocated() == kept.nbytes
    # Pooled memory counts against the device like any other.
    assert sim.used_bytes(0) >= kept.nbytes


@scenario(fresh=True, PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:32,garbage_collection_threshold:0.6", **SMALL)
def test_other_settings() -> None:
    for size in (20 << 20, 60 << 20, 40 << 20, 100 << 20):
        empty(size)
    assert torch.cuda.memory_stats()["max_split_size"] == 32 << 20
