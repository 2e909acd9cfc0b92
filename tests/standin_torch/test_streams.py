"""Streams and events. In lazy mode work runs only when something waits for it, so that a missing wait shows every time."""

from __future__ import annotations

import ctypes

import torch
from scenario import scenario

import sim

LENGTH = 1 << 18


@scenario()
def test_streams_and_events() -> None:
    stream = torch.cuda.Stream()
    first = torch.cuda.Event(enable_timing=True)
    second = torch.cuda.Event(enable_timing=True)
    block = torch.empty(1 << 20, device="cuda")
    with torch.cuda.stream(stream):
        first.record()
        block * 2
        block.record_stream(stream)
        second.record()
    second.synchronize()
    assert second.query()
    assert first.elapsed_time(second) > 0
    assert torch.cuda.Stream(priority=-1).priority == -1
    address = block.data_ptr()
    del block
    torch.cuda.current_stream().wait_stream(stream)
    assert torch.empty(1 << 20, device="cuda").data_ptr() == address


@scenario(REPRIEVE_SIM_MODE="lazy")
def test_missing_wait_reads_the_old_value() -> None:
    side = torch.cuda.Stream()
    fives = torch.full((LENGTH,), 5.0).pin_memory()
    out = torch.empty(LENGTH).pin_memory()
    block = torch.empty(LENGTH, device="cuda")
    block.zero_()
    torch.cuda.synchronize()
    with sim.held(torch.cuda.default_stream()):  # as if it had much to do
        block.copy_(fives, non_blocking=True)
        with torch.cuda.stream(side):
            out.copy_(block, non_blocking=True)
            side.synchronize()
    assert out[0] == 0
    assert any("unordered" in text for text in sim.faults())
    with torch.cuda.stream(side):
        side.wait_stream(torch.cuda.default_stream())
        out.copy_(block, non_blocking=True)
        side.synchronize()
    assert out[0] == 5


@scenario(REPRIEVE_SIM_MODE="lazy")
def test_record_stream_keeps_the_block() -> None:
    side = torch.cuda.Stream()
    block = torch.empty(LENGTH, device="cuda")
    out = torch.empty(LENGTH).pin_memory()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        out.copy_(block, non_blocking=True)
        block.record_stream(side)
    address = block.data_ptr()
    del block
    assert torch.empty(LENGTH, device="cuda").data_ptr() != address
    torch.cuda.synchronize()
    blocks = [torch.empty(LENGTH, device="cuda") for _ in range(2)]
    assert address in [each.data_ptr() for each in blocks]


@scenario(REPRIEVE_SIM_MODE="lazy")
def test_forgotten_record_stream_reads_the_next_owners_bytes() -> None:
    side = torch.cuda.Stream()
    out = torch.empty(LENGTH).pin_memory()
    block = torch.empty(LENGTH, device="cuda")
    block.copy_(torch.full((LENGTH,), 5.0))
    torch.cuda.synchronize()
    with sim.held(side):
        with torch.cuda.stream(side):
            out.copy_(block, non_blocking=True)
        address = block.data_ptr()
        del block
        next_owner = torch.empty(LENGTH, device="cuda")
        assert next_owner.data_ptr() == address
        next_owner.copy_(torch.full((LENGTH,), 9.0))
    side.synchronize()
    assert out[0] == 9
    assert any("unordered" in text for text in sim.faults())


def cudart() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@scenario(fails="SIGSEGV")
def test_access_to_freed_memory_faults() -> None:
    address = ctypes.c_void_p()
    assert cudart().cudaMalloc(ctypes.byref(address), ctypes.c_size_t(1 << 20)) == 0
    assert cudart().cudaFree(address) == 0
    ctypes.memset(address, 0, 10)


@scenario(fresh=True, REPRIEVE_SIM_MODE="lazy", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
def test_copy_that_comes_too_late_is_a_fault() -> None:
    """Unmapping, unlike cudaFree, does not wait for the device: a copy that no stream was recorded for finds nothing."""
    side = torch.cuda.Stream()
    out = torch.zeros(LENGTH).pin_memory()
    block = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    late = block[: out.nbytes].view(torch.float32)
    late.copy_(torch.full((LENGTH,), 5.0))
    torch.cuda.current_stream().synchronize()
    with torch.cuda.stream(side):
        out.copy_(late, non_blocking=True)
    del late, block
    torch.cuda.memory.empty_cache()
    side.synchronize()
    assert any("early unmap" in text or "changed backing" in text for text in sim.faults()), sim.faults()
