"""The C interface of the simulated GPUs of this process (src/simgpu/sim.h)."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

_library = ctypes.CDLL(None)  # the stand-in is loaded already, with what it needs


def _function(name: str, result: Any, *arguments: Any) -> Any:
    found = getattr(_library, f"reprieve_sim_{name}")
    found.restype = result
    found.argtypes = arguments
    return found


used_bytes = _function("used_bytes", ctypes.c_uint64, ctypes.c_int)
peak_used_bytes = _function("peak_used_bytes", ctypes.c_uint64, ctypes.c_int)
host_used_bytes = _function("host_used_bytes", ctypes.c_uint64)
set_foreign_use = _function("set_foreign_use", ctypes.c_int, ctypes.c_int, ctypes.c_uint64)
_set_capacity = _function("set_capacity", ctypes.c_int, ctypes.c_int, ctypes.c_uint64)
_launches = _function("launches", ctypes.c_uint64, ctypes.c_char_p)
_calls = _function("calls", ctypes.c_uint64, ctypes.c_char_p)
_fail = _function("fail", ctypes.c_int, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int)
_hold = _function("hold", ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
_release = _function("release", ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
_fault_count = _function("fault_count", ctypes.c_uint64)
_fault = _function("fault", ctypes.c_size_t, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)


def launches(name_part: str = "") -> int:
    return int(_launches(name_part.encode()))


def calls(name: str) -> int:
    return int(_calls(name.encode()))


def set_capacity(device: int, bytes_: int) -> None:
    assert _set_capacity(device, bytes_) == 0


def fail(call: str, after: int, times: int, code: int) -> None:
    assert _fail(call.encode(), after, times, code) == 0


def faults() -> list[str]:
    texts = []
    for index in range(min(_fault_count(), 1000)):
        room = _fault(index, None, 0) + 1
        buffer = ctypes.create_string_buffer(room)
        _fault(index, buffer, room)
        texts.append(buffer.value.decode())
    return texts


@contextlib.contextmanager
def held(stream: Any) -> Iterator[None]:
    """Nothing queued on the stream, a torch.cuda.Stream, runs meanwhile."""
    assert _hold(stream.device_index, stream.cuda_stream) == 0
    yield
    assert _release(stream.device_index, stream.cuda_stream) == 0
