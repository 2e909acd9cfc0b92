"""Streams, threads and processes that use the allocator at once."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
import torch
from facts import counters, empty, live
from pair import both, ours

LAZY = {"REPRIEVE_SIM_MODE": "lazy"}
LENGTH = 1 << 18


@both(**LAZY)
def test_recorded_block_waits_for_the_other_stream() -> list[Any]:
    side = torch.cuda.Stream()
    block = torch.empty(LENGTH, device="cuda")
    out = torch.empty(LENGTH).pin_memory()
    block.copy_(torch.full((LENGTH,), 5.0))
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        out.copy_(block, non_blocking=True)
        block.record_stream(side)
    address = block.data_ptr()
    del block
    others = [torch.empty(LENGTH, device="cuda") for _ in range(4)]
    for other in others:
        other.copy_(torch.full((LENGTH,), 9.0))
    early = address in [other.data_ptr() for other in others]
    del others
    torch.cuda.synchronize()
    return [early, out[0].item(), out[-1].item(), counters()]


@both(**LAZY)
def test_unrecorded_block_is_used_again_at_once() -> list[Any]:
    block = torch.empty(LENGTH, device="cuda")
    address = block.data_ptr()
    del block
    return [torch.empty(LENGTH, device="cuda").data_ptr() == address]


@both(**LAZY)
def test_recording_its_own_stream_changes_nothing() -> list[Any]:
    block = torch.empty(LENGTH, device="cuda")
    block.record_stream(torch.cuda.current_stream())
    address = block.data_ptr()
    del block
    return [torch.empty(LENGTH, device="cuda").data_ptr() == address, counters()]


@both()
def test_each_stream_has_its_own_blocks() -> list[Any]:
    streams = [torch.cuda.Stream() for _ in range(4)]
    held = []
    for index, stream in enumerate(streams):
        with torch.cuda.stream(stream):
            held += [empty(1000 * (index + 1)), empty((2 << 20) + index)]
    numbers = {stream.cuda_stream: index for index, stream in enumerate(streams)}
    found = [(size, state, numbers[stream]) for size, state, stream in live(torch.cuda.memory_snapshot())]
    del held[::2]
    return [found, counters()]


@both()
def test_threads() -> list[Any]:
    """Eight threads allocate, record streams and free what others allocated."""
    shared: list[torch.Tensor] = []
    lock = threading.Lock()
    problems: list[BaseException] = []

    def work(number: int) -> None:
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for step in range(200):
                    tensor = empty(500 + 1000 * number + step)
                    tensor.record_stream(torch.cuda.default_stream())
                    with lock:
                        shared.append(tensor)
                        gone = shared.pop(0) if len(shared) > 20 else None
                    del tensor, gone
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    shared.clear()
    torch.cuda.empty_cache()
    stats = counters()
    return [problems, stats["allocation.all.current"], stats["allocation.all.allocated"], stats["requested_bytes.all.allocated"]]


@both()
def test_pinned_loader_with_workers() -> list[Any]:
    data = torch.utils.data.TensorDataset(torch.arange(64.0))
    loader = torch.utils.data.DataLoader(data, batch_size=16, num_workers=2, pin_memory=True)
    seen = []
    for (batch,) in loader:
        seen.append((batch.is_pinned(), batch.cuda(non_blocking=True).cpu().sum().item()))
    return [seen, counters()]


@ours(options={"limit": "1GiB"})
def test_a_fork_before_the_first_use_works_in_the_child() -> None:
    child = os.fork()
    if child == 0:
        right = torch.arange(10.0).cuda().sum().device.type == "cuda" and torch.cuda.memory_reserved() > 0
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert torch.arange(10.0).cuda().cpu().tolist() == list(range(10))


@both()
def test_a_fork_after_the_first_use_is_refused_in_the_child() -> list[Any]:
    held = empty(1000)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            empty(10)
        except RuntimeError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    text = os.read(reader, 1000).decode()
    return [text.split(".")[0], held.nbytes, empty(10).nbytes]


@both()
def test_bytes_survive() -> list[Any]:
    held = [torch.arange(size, dtype=torch.int32).cuda() for size in (10, 1000, 1 << 20, 3 << 20)]
    del held[1]
    held += [torch.full((size,), 7, dtype=torch.int32).cuda() for size in (500, 2 << 20)]
    return [(len(tensor), int(tensor.cpu().long().sum())) for tensor in held]


@pytest.mark.parametrize("size", [1, 1 << 20, 30 << 20])
@both()
def test_addresses_are_aligned(size: int) -> list[int]:
    return [empty(size).data_ptr() % 512 for _ in range(5)]
