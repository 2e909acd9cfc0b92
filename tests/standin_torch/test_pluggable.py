"""libreprieve's functions as torch's pluggable allocator, against the native allocator in the same script."""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from models import llama
from scenario import scenario

LIBRARY = pathlib.Path(os.environ.get("REPRIEVE_LIBRARY_DIR", ""), "libreprieve.so.0")
if not os.environ.get("REPRIEVE_LIBRARY_DIR") or not LIBRARY.exists():
    pytest.skip("no libreprieve.so.0: REPRIEVE_LIBRARY_DIR names no build of it", allow_module_level=True)

# Sequences of every length, which break a cache of whole blocks into pieces.
LENGTHS = (48, 190, 96, 255, 160, 64, 220, 128)
COUNTERS = ("requested", "allocated", "active", "inactive_split", "reserved")
asked: list[int] = []


class Counter(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("current", "peak", "allocated", "freed")]


class Stats(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), *[(name, Counter) for name in COUNTERS]]


def use_reprieve(count: bool = False) -> ctypes.CDLL:
    """`count`: through functions that note every size in `asked` before they hand the call on."""
    library = ctypes.CDLL(str(LIBRARY))
    pluggable = torch.cuda.memory.CUDAPluggableAllocator(str(LIBRARY), "reprieve_malloc", "reprieve_free")
    if count:
        malloc_type = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
        library.reprieve_malloc.restype = ctypes.c_void_p
        library.reprieve_malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]

        def malloc(size: int, device: int, stream: int) -> int:
            asked.append(size)
            return library.reprieve_malloc(size, device, stream)

        use_reprieve.kept = malloc_type(malloc)  # type: ignore[attr-defined]
        address = ctypes.cast(use_reprieve.kept, ctypes.c_void_p).value  # type: ignore[attr-defined]
        free = ctypes.cast(library.reprieve_free, ctypes.c_void_p).value
        inner = torch._C._cuda_customAllocator(address, free)
        inner.set_record_stream_fn(ctypes.cast(library.reprieve_record_stream, ctypes.c_void_p).value)
        torch._C._cuda_changeCurrentAllocator(inner)
        return library
    pluggable.allocator().set_record_stream_fn(ctypes.cast(library.reprieve_record_stream, ctypes.c_void_p).value)
    torch.cuda.memory.change_current_allocator(pluggable)
    return library


def statistics(library: ctypes.CDLL) -> Stats:
    stats = Stats(size=ctypes.sizeof(Stats))
    assert library.reprieve_get_stats(0, ctypes.byref(stats)) == 0
    return stats


def run_script() -> None:
    """Training without the calls of torch.cuda.memory that a pluggable allocator refuses."""
    model = llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step, length in enumerate(LENGTHS):
        batch = torch.randint(0, 1000, (2, length), generator=torch.Generator().manual_seed(step)).cuda()
        # With a whole mask transformers asks the device nothing, whose answers would be memory's old contents.
        mask = torch.zeros(2, 1, length, length, device="cuda")
        loss = model(input_ids=batch, labels=batch, attention_mask=mask).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def main() -> None:
    """As a program: `native` or `reprieve` runs the script and prints what it asked for."""
    if sys.argv[1] == "native":
        torch.cuda.init()
        torch.cuda.memory._record_memory_history(context=None)
        run_script()
        entries = torch.cuda.memory._snapshot()["device_traces"][0]
        sizes = [entry["size"] for entry in entries if entry["action"] == "alloc"]
        stats = torch.cuda.memory_stats()
        requested, reserved = stats["requested_bytes.all.peak"], stats["reserved_bytes.all.peak"]
    else:
        library = use_reprieve(count=sys.argv[1] == "counting")
        run_script()
        torch.cuda.synchronize()
        sizes = asked
        requested, reserved = statistics(library).requested.peak, statistics(library).reserved.peak
    print(json.dumps({"sizes": sizes, "requested": requested, "reserved": reserved}))


def program(allocator: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, __file__, allocator]
    more = {"PYTHONPATH": os.pathsep.join(sys.path), **environment}
    return subprocess.run(command, env=os.environ | more, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def native() -> dict[str, object]:
    done = program("native")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_both_allocators_are_asked_for_the_same_sizes(native: dict[str, object]) -> None:
    done = program("counting")
    assert done.returncode == 0, done.stderr
    ours = json.loads(done.stdout.splitlines()[-1])
    sizes = native["sizes"]
    assert isinstance(sizes, list)
    assert len(sizes) > 3000
    # The native allocator answers a request for nothing before it takes note of it.
    assert [size for size in ours["sizes"] if size != 0] == sizes
    assert ours["requested"] == native["requested"]


def test_peak_of_requested_bytes(native: dict[str, object]) -> None:
    done = program("reprieve")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["requested"] == native["requested"]


def test_trains_where_the_native_allocator_dies(native: dict[str, object]) -> None:
    """A capacity of the requested peak and 4 % more, in whole pages."""
    requested = native["requested"]
    assert isinstance(requested, int)
    capacity = str((int(requested * 1.04) // (2 << 20) + 1) * (2 << 20))
    died = program("native", REPRIEVE_SIM_CAPACITY=capacity)
    assert died.returncode != 0
    assert "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate" in died.stderr
    # A limit, since without one 512 MiB would be left for what else lives on a card.
    done = program("reprieve", REPRIEVE_SIM_CAPACITY=capacity, REPRIEVE_LIMIT=capacity)
    assert done.returncode == 0, done.stderr


@scenario()
def test_record_stream() -> None:
    use_reprieve()
    side = torch.cuda.Stream()
    block = torch.full((1 << 20,), 5.0, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        copy = block.clone()
        block.record_stream(side)
    del block
    torch.cuda.synchronize()
    assert copy.cpu().unique().tolist() == [5.0]


if __name__ == "__main__":
    main()
