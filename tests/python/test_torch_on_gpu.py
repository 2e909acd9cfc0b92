"""torch's pluggable allocator with the library's functions, on a real GPU, each case in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")
if not torch.cuda.is_available():
    pytest.skip("no GPU that torch can use here", allow_module_level=True)

SET_UP = """
import ctypes, torch, reprieve
library = str(reprieve.library_path())
pluggable = torch.cuda.memory.CUDAPluggableAllocator(library, "reprieve_malloc", "reprieve_free")
record = ctypes.CDLL(library).reprieve_record_stream
pluggable.allocator().set_record_stream_fn(ctypes.cast(record, ctypes.c_void_p).value)
torch.cuda.memory.change_current_allocator(pluggable)
"""


def run(body: str, **environment: str) -> str:
    command = [sys.executable, "-c", SET_UP + body]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_tensors_come_from_the_library() -> None:
    out = run("""
a = torch.arange(1 << 20, device="cuda")
print(int(a.sum()), a.data_ptr() % 512)
a = None
class Stats(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("requested", ctypes.c_int64 * 4)]
stats = Stats(size=ctypes.sizeof(Stats))
assert ctypes.CDLL(library).reprieve_get_stats(0, ctypes.byref(stats)) == 0
print(stats.requested[1] >= 8 << 20)
""")
    assert out.split() == [str((1 << 20) * ((1 << 20) - 1) // 2), "0", "True"]


def test_record_stream_keeps_a_block_from_its_next_owner() -> None:
    out = run("""
side = torch.cuda.Stream()
a = torch.full((1 << 24,), 5.0, device="cuda")
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    torch.cuda._sleep(400_000_000)
    copy = a.clone()
    a.record_stream(side)
address = a.data_ptr()
del a
b = torch.full((1 << 24,), 9.0, device="cuda")
torch.cuda.synchronize()
print(b.data_ptr() == address, float(copy.min()), float(copy.max()))
""")
    assert out.split() == ["False", "5.0", "5.0"]


def test_an_out_of_memory_has_the_beginning_of_torch_s_text() -> None:
    out = run(
        """
try:
    torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
except RuntimeError as error:
    print(str(error).splitlines()[0])
print(float(torch.ones(1024, device="cuda").sum()))
""",
        REPRIEVE_LIMIT="512MiB",
    )
    first, rest = out.splitlines()
    assert first.startswith("CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of ")
    assert rest == "1024.0"
