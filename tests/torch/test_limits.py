"""Fractions, giving memory back, and what happens when there is none left."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from facts import counters, empty, live, used
from pair import both, ours

CAPACITY = 256 << 20
# A card that small has no room for what growth leaves free for others (docs/options.md).
SMALL = {"REPRIEVE_SIM_CAPACITY": str(CAPACITY), "REPRIEVE_HEADROOM": "1"}


@both(**SMALL)
def test_fraction() -> list[Any]:
    out: list[Any] = [torch.cuda.get_per_process_memory_fraction()]
    torch.cuda.set_per_process_memory_fraction(0.5)
    out.append(torch.cuda.get_per_process_memory_fraction())
    with pytest.raises(torch.OutOfMemoryError) as caught:
        empty(200 << 20)
    out += [str(caught.value).startswith("CUDA out of memory. Tried to allocate 200.00 MiB. GPU 0"), used() <= CAPACITY // 2]
    held = [empty(20 << 20) for _ in range(5)]
    out += [len(held), counters(), torch.cuda.mem_get_info()[1]]
    torch.cuda.set_per_process_memory_fraction(1.0)
    out.append(empty(120 << 20).nbytes)
    return out


@both(**SMALL)
def test_fractions_that_are_refused() -> list[str]:
    out = []
    for fraction in (-0.1, 1.5, "half", 1):
        with pytest.raises((ValueError, TypeError)) as caught:
            torch.cuda.set_per_process_memory_fraction(fraction)  # type: ignore[arg-type]
        out.append(str(caught.value))
    return out


@both()
def test_empty_cache_gives_memory_back() -> list[Any]:
    held = [empty(size) for size in (100, 3 << 20, 100 << 20)]
    out: list[Any] = [used() == torch.cuda.memory_reserved(), used() >= 103 << 20]
    del held[1:]
    torch.cuda.empty_cache()
    out += [used() == torch.cuda.memory_reserved(), used() <= 2 << 20, counters()]
    del held
    torch.cuda.empty_cache()
    return [*out, used(), torch.cuda.memory_reserved(), torch.cuda.memory_snapshot(), torch.cuda.mem_get_info()]


@both()
def test_empty_cache_before_the_first_use() -> list[Any]:
    torch.cuda.empty_cache()
    return [torch.cuda.is_initialized()]


def tell_of_oom(told: list[tuple[int, ...]]) -> None:
    torch._C._cuda_attach_out_of_memory_observer(lambda *arguments: told.append(arguments))


@both(**SMALL)
def test_out_of_memory() -> list[Any]:
    told: list[tuple[int, ...]] = []
    tell_of_oom(told)
    torch.cuda.memory._record_memory_history(stacks="python")
    held = empty(100 << 20)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        empty(300 << 20)
    begin = "CUDA out of memory. Tried to allocate 300.00 MiB. GPU 0 has a total capacity of 256.00 MiB of which 156.00 MiB is free."
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    oom = [entry for entry in trace if entry["action"] == "oom"]
    assert str(caught.value).startswith(begin), caught.value
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, torch.cuda.OutOfMemoryError)
    out: list[Any] = [told, counters(), [(entry["size"], entry["device_free"], entry["stream"]) for entry in oom]]
    out += [sorted(oom[0]), any(frame["name"] == "test_out_of_memory" for frame in oom[0]["frames"])]
    return [*out, empty(100 << 20).nbytes, held.nbytes, torch.cuda.memory_stats()["num_ooms"]]


@both(**SMALL)
def test_more_than_can_be_asked_for() -> list[Any]:
    out = []
    for size in (1 << 61, (1 << 60) + 1, 1 << 50, (1 << 60) - 1):
        with pytest.raises((torch.OutOfMemoryError, RuntimeError)) as caught:
            empty(size)
        out.append((type(caught.value).__name__, str(caught.value).split(". GPU")[0]))
    return [*out, counters()]


@both(**SMALL)
def test_a_program_goes_on_after_running_out() -> list[Any]:
    out = []
    for _ in range(5):
        held = []
        try:
            while True:
                held.append(empty(10 << 20))
        except torch.OutOfMemoryError:
            out.append(len(held) >= 24)
    del held
    torch.cuda.empty_cache()
    return [*out, empty(200 << 20).nbytes, torch.cuda.memory_stats()["num_ooms"]]


@both(**SMALL)
def test_observers_may_use_the_allocator() -> list[Any]:
    """They run with no lock held, in the thread that ran out, and more than one may be attached."""
    told: list[Any] = []

    def observer(*arguments: int) -> None:
        told.append((arguments[:3], empty(1000).nbytes, torch.cuda.memory_allocated(), len(torch.cuda.memory_snapshot()) > 0))

    torch._C._cuda_attach_out_of_memory_observer(observer)
    torch._C._cuda_attach_out_of_memory_observer(lambda *arguments: told.append(arguments[:3]))
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError):
            empty(300 << 20)
    return told


@both(**SMALL)
def test_an_exception_through_an_allocation_leaves_nothing_behind() -> list[Any]:
    held = empty(100 << 20)
    for _ in range(20):
        with pytest.raises(torch.OutOfMemoryError):
            torch.cat([held, held, held])
        with pytest.raises(torch.OutOfMemoryError):
            held.repeat(3)
    return [counters(), live(torch.cuda.memory_snapshot())]


@ours(**SMALL)
def test_free_memory_in_the_way_is_regrouped() -> None:
    """Better than torch's: free memory below a live block and above it makes one block, with nothing freed in between."""
    low, middle, high = empty(100 << 20), empty(20 << 20), empty(100 << 20)
    del low, high
    assert empty(200 << 20).nbytes == 200 << 20
    assert torch.cuda.memory_stats()["num_ooms"] == 0
    assert middle.nbytes == 20 << 20


@ours(options={"limit": "100MiB"})
def test_limit_is_obeyed() -> None:
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory. Tried to allocate 200.00 MiB"):
        empty(200 << 20)
    assert used() <= 100 << 20
    assert empty(90 << 20).nbytes == 90 << 20


@ours(options={"limit": 0.25}, **SMALL)
def test_limit_as_a_part_of_the_device() -> None:
    with pytest.raises(torch.OutOfMemoryError):
        empty(65 << 20)
    assert empty(60 << 20).nbytes == 60 << 20
    # The driver's own figures, whatever the limit.
    assert torch.cuda.mem_get_info()[1] == CAPACITY
