"""torch.cuda's memory statistics: the same figures as torch's own allocator gives, wherever policy does not enter."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
import torch
from facts import EXACT_UP_TO, counters, empty, used
from pair import both, ours

SIZES = (1, 511, 512, 513, 100_000, EXACT_UP_TO)
LARGE = (EXACT_UP_TO + 1, 2 << 20, 5 << 20, (10 << 20) + 1, 100 << 20)


@pytest.mark.parametrize(("sizes", "exact"), [(SIZES, True), (SIZES + LARGE, False)])
@both()
def test_current_peak_allocated_and_freed(sizes: tuple[int, ...], exact: bool) -> list[dict[str, int]]:
    steps = [counters(exact=exact)]
    held = [empty(size) for size in sizes]
    steps.append(counters(exact=exact))
    del held[1:4]
    steps.append(counters(exact=exact))
    torch.cuda.reset_peak_memory_stats()
    steps.append(counters(exact=exact))
    torch.cuda.reset_accumulated_memory_stats()
    steps.append(counters(exact=exact))
    again = empty(sizes[-1])
    steps.append(counters(exact=exact))
    del again, held
    steps.append(counters(exact=exact))
    torch.cuda.empty_cache()
    steps.append(counters(exact=exact))
    return steps


@both()
def test_many_blocks() -> list[dict[str, int]]:
    choose = random.Random(1)
    held: list[torch.Tensor] = []
    steps = []
    for step in range(2000):
        if held and choose.random() < 0.45:
            held.pop(choose.randrange(len(held)))
        else:
            held.append(empty(int(2 ** choose.uniform(0, 20))))
        if step % 100 == 0:
            steps.append(counters(exact=True))
        if step % 400 == 399:
            torch.cuda.reset_peak_memory_stats()
    return steps


@both()
def test_small_and_large_blocks_apart() -> list[dict[str, int]]:
    held = [empty(size) for size in SIZES + LARGE]
    steps = [counters(by_size=True)]
    del held[::2]
    return [*steps, counters(by_size=True)]


@both()
def test_names_of_all_statistics() -> dict[str, Any]:
    empty(10)
    flat = torch.cuda.memory_stats()
    nested = torch.cuda.memory_stats_as_nested_dict()
    return {"flat": list(flat), "nested": sorted(nested), "types": {type(value).__name__ for value in flat.values()}}


@both()
def test_short_cuts() -> list[Any]:
    held = [empty(1000), empty(2000)]
    out = [torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()]
    del held[0]
    out += [torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()]
    with pytest.warns(FutureWarning):
        torch.cuda.reset_max_memory_allocated()
    out += [torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()]
    out += [torch.cuda.memory_reserved() == used(), torch.cuda.max_memory_reserved() == used()]
    out += [torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()]
    return out


@both()
def test_before_the_first_use() -> list[Any]:
    return [
        torch.cuda.memory_stats(),
        torch.cuda.memory_allocated(),
        torch.cuda.max_memory_reserved(),
        torch.cuda.memory_snapshot(),
        torch.cuda.is_initialized(),
    ]


@both(REPRIEVE_SIM_DEVICES="2")
def test_two_devices() -> list[Any]:
    held = [empty(1000, "cuda:0"), empty(3000, "cuda:1"), empty(5000, "cuda:1")]
    out = [counters(exact=True, device=device) for device in range(2)]
    del held[1]
    torch.cuda.reset_peak_memory_stats(0)
    out += [counters(exact=True, device=device) for device in range(2)]
    torch.cuda.reset_accumulated_memory_stats(1)
    out += [counters(exact=True, device=device) for device in range(2)]
    with torch.cuda.device(1):
        held.append(empty(700))
        out.append(torch.cuda.memory_allocated())
    return [*out, torch.cuda.memory_allocated(0), [tensor.get_device() for tensor in held]]


@both()
def test_devices_that_are_not_there() -> list[str]:
    empty(10)
    out = []
    for call in (
        torch.cuda.memory_stats,
        torch.cuda.reset_peak_memory_stats,
        torch.cuda.reset_accumulated_memory_stats,
        torch.cuda.get_per_process_memory_fraction,
    ):
        with pytest.raises((AssertionError, RuntimeError, ValueError)) as caught:
            call(7)
        out.append(type(caught.value).__name__)
    return out


@pytest.mark.parametrize("abbreviated", [False, True])
@both()
def test_form_of_the_summary(abbreviated: bool) -> list[str]:
    held = [empty(5000), empty(3 << 20)]
    del held[0]
    text = torch.cuda.memory_summary(abbreviated=abbreviated)
    return [re.sub(r" +\d+ *(B|[KMG]iB)?", " #", line) for line in text.splitlines()]


@both()
def test_accelerator_functions() -> list[Any]:
    memory = torch.accelerator.memory
    held = [empty(1000), empty(2000)]
    out: list[Any] = [memory.memory_allocated(), memory.max_memory_allocated(), sorted(memory.memory_stats())]
    del held[0]
    memory.reset_peak_memory_stats()
    out += [memory.max_memory_allocated(), memory.memory_reserved() == used()]
    memory.reset_accumulated_memory_stats()
    out += [value for name, value in memory.memory_stats().items() if re.match(r"(allocation|requested_bytes)\.all", name)]
    del held
    memory.empty_cache()
    return [*out, memory.memory_reserved(), memory.max_memory_reserved() > 0, memory.get_memory_info()]


@both()
def test_raw_memory() -> list[Any]:
    stream = torch.cuda.Stream()
    first = torch.cuda.caching_allocator_alloc(1000)
    second = torch.cuda.caching_allocator_alloc(2000, stream=stream)
    with torch.cuda.stream(stream):
        third = torch.cuda.caching_allocator_alloc(3000, device=0)
    out: list[Any] = [counters(exact=True)]
    for address in (first, second, third):
        torch.cuda.caching_allocator_delete(address)
    out.append(counters(exact=True))
    torch.cuda.empty_cache()
    out.append(torch.cuda.memory_reserved())
    with pytest.raises(RuntimeError) as caught:
        torch.cuda.caching_allocator_delete(12345)
    return [*out, type(caught.value).__name__]


@both()
def test_storages_of_no_bytes() -> list[Any]:
    nothing = torch.empty(0, device="cuda")
    return [nothing.data_ptr(), nothing.device.index, counters(exact=True)]


@ours()
def test_backend_name() -> None:
    empty(1)
    assert torch.cuda.get_allocator_backend() == "reprieve"


@both()
def test_processes_on_the_gpu() -> str:
    return re.sub(r"\d+", "#", torch.cuda.list_gpu_processes())
