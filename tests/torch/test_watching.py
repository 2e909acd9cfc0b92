"""What watches allocations: the profiler, the CUDA sanitizer's callbacks."""

from __future__ import annotations

from typing import Any

import torch
from facts import empty
from pair import both
from torch.cuda import _gpu_trace


@both()
def test_profiler_sees_memory() -> list[Any]:
    empty(10)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        held = empty(5000)
        empty(3000)
        held = None  # noqa: F841
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    sizes = [event.nbytes() for event in events if "cuda" in str(event.device_type()).lower()]
    rows = {row.key: row.self_device_memory_usage for row in profile.key_averages()}
    return [sizes, rows.get("aten::empty")]


@both()
def test_gpu_trace_callbacks() -> list[Any]:
    empty(10)
    seen: list[tuple[str, int]] = []
    torch._C._activate_gpu_trace()
    _gpu_trace.register_callback_for_memory_allocation(lambda address: seen.append(("alloc", address)))
    _gpu_trace.register_callback_for_memory_deallocation(lambda address: seen.append(("free", address)))
    block = empty(5000)
    address = block.data_ptr()
    del block
    return [[(what, where == address) for what, where in seen]]
