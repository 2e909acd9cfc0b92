"""The libraries as Python sees them: libreprieve.so's options, and the replay engine over it (src/replay/replay.h)."""

from __future__ import annotations

import ctypes
import functools
import math
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_REPLAY_LIBRARY = "libreprieve_replay.so"
_CALL_KINDS = 21  # REPRIEVE_CALL_KINDS
_OK, _FAILED, _REFUSED = 0, 1, 2  # REPRIEVE_REPLAY_*

# reprieve_replay_event: id, bytes, stream, time_us, pool, op, flags. A buffer of these makes a trace.
EVENT = struct.Struct("=QQQQIHH")
ALLOCATE, FREE, RECORD, EMPTY_CACHE = 0, 1, 2, 3
GRAPH_POOL = 1


class RefusedError(Exception):
    """The input is not acceptable.

    `line` is the trace's, from 1; 0 where it is no line's fault. `event` is that of a trace made of events, from 0.
    """

    def __init__(self, text: str, line: int = 0, event: int | None = None) -> None:
        super().__init__(text)
        self.line = line
        self.event = event


class FailedError(Exception):
    """A call of the library failed."""


class _Error(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("line", ctypes.c_uint64),
        ("text", ctypes.c_char * 400),
        ("event", ctypes.c_int64),
    ]


class _TraceInfo(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("events", ctypes.c_uint64),
        ("streams", ctypes.c_uint64),
        ("first_event_line", ctypes.c_uint64),
        ("peak_requested_bytes", ctypes.c_uint64),
        ("duration_us", ctypes.c_uint64),
        ("pools", ctypes.c_uint64),
    ]


class _Sample(ctypes.Structure):
    _fields_ = [
        ("event", ctypes.c_uint64),
        ("time_us", ctypes.c_uint64),
        ("requested", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64),
    ]


class _Config(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("device", ctypes.c_char_p),
        ("limit_bytes", ctypes.c_uint64),
        ("capacity_bytes", ctypes.c_uint64),
        ("repeats", ctypes.c_int32),
        ("policy", ctypes.c_char_p),
        ("alloc_conf", ctypes.c_char_p),
        ("samples", ctypes.POINTER(_Sample)),
        ("sample_capacity", ctypes.c_size_t),
    ]


class _Result(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("completed", ctypes.c_int32),
        ("failed_at_event", ctypes.c_int64),
        ("peak_reserved_bytes", ctypes.c_uint64),
        ("min_limit_bytes", ctypes.c_uint64),
        ("ns_per_event", ctypes.c_double),
        ("ns_per_event_second_pass", ctypes.c_double),
        ("total_ns_per_event", ctypes.c_double),
        ("total_ns_per_event_second_pass", ctypes.c_double),
        ("driver_us", ctypes.c_double),
        ("teardown_driver_us", ctypes.c_double),
        ("driver_calls", ctypes.c_int64 * _CALL_KINDS),
        ("cuda_malloc_calls", ctypes.c_int64),
        ("cuda_free_calls", ctypes.c_int64),
        ("alloc_retries", ctypes.c_int64),
        ("samples", ctypes.c_uint64),
    ]


class _AllocConfInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("expandable_segments", ctypes.c_int32)]


class _OptionInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [
        (name, ctypes.c_char_p) for name in ("name", "environment", "type", "default_value", "accepted", "text")
    ]


@dataclass(frozen=True)
class Option:
    """One entry of the library's options table."""

    name: str
    environment: str
    type: str
    default: str
    accepted: str
    text: str


@dataclass(frozen=True)
class Config:
    """How a trace is replayed. Sizes in bytes; 0 means no limit, and the default capacity.

    `policy` is reprieve, native or expandable; `alloc_conf` is PYTORCH_CUDA_ALLOC_CONF's text for the last two.
    `samples` is the most intervals that the run is told in, 0 or 2 and more.
    """

    device: str = "sim"
    limit_bytes: int = 0
    capacity_bytes: int = 0
    repeats: int = 3
    policy: str = "reprieve"
    alloc_conf: str | None = None
    samples: int = 0


@dataclass(frozen=True)
class Sample:
    """One interval of a run: the most that was live in it and when that was, and the most that was reserved."""

    event: int
    time_us: int
    requested: int
    reserved: int


@dataclass(frozen=True)
class Result:
    """What a replay measured; the fields are those of reprieve_replay_result. Times per event are None for a model."""

    completed: bool
    failed_at_event: int | None
    peak_reserved_bytes: int
    min_limit_bytes: int | None
    ns_per_event: float | None
    ns_per_event_second_pass: float | None
    total_ns_per_event: float | None
    total_ns_per_event_second_pass: float | None
    driver_us: float
    teardown_driver_us: float
    driver_calls: dict[str, int]
    alloc_retries: int
    samples: tuple[Sample, ...]


def _directory() -> str:
    # REPRIEVE_LIBRARY_DIR is for a build tree, where the package has no lib/ of its own.
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
    return os.environ.get("REPRIEVE_LIBRARY_DIR") or beside


def library_path() -> str:
    """The path of libreprieve.so; raises FileNotFoundError where there is none."""
    directory = _directory()
    names = os.listdir(directory) if os.path.isdir(directory) else []
    # A wheel holds no symbolic links, so there the library has its version behind its name. The shortest name is the
    # one that other libraries are linked to, so that the process never loads a second copy under another name.
    found = sorted((n for n in names if n == "libreprieve.so" or n.startswith("libreprieve.so.")), key=len)
    if not found:
        raise FileNotFoundError(
            f"no libreprieve.so in {directory}: install the package (pip install .), or set REPRIEVE_LIBRARY_DIR to a "
            "build's lib directory"
        )
    return os.path.join(os.path.abspath(directory), found[0])


@functools.cache
def _library() -> ctypes.CDLL:
    path = os.path.join(os.path.dirname(library_path()), _REPLAY_LIBRARY)
    try:
        # Its dependency libreprieve.so comes with it, and dlsym finds both libraries' functions through one handle.
        library = ctypes.CDLL(path)
    except OSError as error:
        raise FailedError(f"{path} cannot be loaded: {error}") from error
    library.reprieve_version.restype = ctypes.c_char_p
    library.reprieve_call_name.restype = ctypes.c_char_p
    library.reprieve_call_name.argtypes = [ctypes.c_int]
    library.reprieve_get_option_info.argtypes = [ctypes.c_size_t, ctypes.POINTER(_OptionInfo)]
    trace = ctypes.c_void_p
    error_out = ctypes.POINTER(_Error)
    library.reprieve_replay_parse.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(trace), error_out]
    library.reprieve_replay_from_events.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(trace), error_out]
    library.reprieve_replay_check_alloc_conf.argtypes = [ctypes.c_char_p, ctypes.POINTER(_AllocConfInfo), error_out]
    library.reprieve_replay_trace_free.argtypes = [trace]
    library.reprieve_replay_trace_free.restype = None
    library.reprieve_replay_trace_describe.argtypes = [trace, ctypes.POINTER(_TraceInfo)]
    library.reprieve_replay_trace_describe.restype = None
    for function in (library.reprieve_replay_run, library.reprieve_replay_min_limit):
        function.argtypes = [trace, ctypes.POINTER(_Config), ctypes.POINTER(_Result), error_out]
    return library


def _check(code: int, error: _Error) -> None:
    if code == _OK:
        return
    text = error.text.decode("utf-8", "replace")
    if code == _REFUSED:
        raise RefusedError(text, error.line, error.event if error.event >= 0 else None)
    raise FailedError(text)


def _measured(value: float) -> float | None:
    return None if math.isnan(value) else value


def version() -> str:
    """The library's version, "MAJOR.MINOR.PATCH"."""
    text: bytes = _library().reprieve_version()
    return text.decode()


def options() -> Iterator[Option]:
    """The library's options, in its own order."""
    info = _OptionInfo(size=ctypes.sizeof(_OptionInfo))
    index = 0
    while _library().reprieve_get_option_info(index, ctypes.byref(info)) == 0:
        fields = (info.name, info.environment, info.type, info.default_value, info.accepted, info.text)
        yield Option(*(field.decode() for field in fields))
        index += 1


def alloc_conf_expandable(text: str) -> bool | None:
    """Whether the text, PYTORCH_CUDA_ALLOC_CONF's, asks for expandable segments; None where it does not say.

    Raises RefusedError where torch 2.11 would not take it. The policy's name decides, whatever the text says.
    """
    info = _AllocConfInfo(size=ctypes.sizeof(_AllocConfInfo))
    error = _Error(size=ctypes.sizeof(_Error))
    _check(_library().reprieve_replay_check_alloc_conf(text.encode(), ctypes.byref(info), ctypes.byref(error)), error)
    return None if info.expandable_segments < 0 else info.expandable_segments != 0


class Trace:
    """A checked trace. Raises RefusedError where `text`, the CSV, is none."""

    def __init__(self, text: bytes) -> None:
        self._read(_library().reprieve_replay_parse, text, len(text))

    @classmethod
    def from_events(cls, events: bytearray) -> Trace:
        """The same from events in memory, each packed with EVENT. Raises RefusedError with the event that is wrong."""
        trace = cls.__new__(cls)
        count, rest = divmod(len(events), EVENT.size)
        if rest:
            raise ValueError(f"{len(events)} bytes are no whole number of events of {EVENT.size}")
        # No copy: a long trace is large. The buffer must not be resized meanwhile, which holding a view ensures.
        view = (ctypes.c_char * len(events)).from_buffer(events)
        trace._read(_library().reprieve_replay_from_events, ctypes.addressof(view), count)
        return trace

    def _read(self, function: Any, data: bytes | int, length: int) -> None:
        self._handle = ctypes.c_void_p()  # before what may raise: __del__ looks at it
        self._library = _library()
        error = _Error(size=ctypes.sizeof(_Error))
        _check(function(data, length, ctypes.byref(self._handle), ctypes.byref(error)), error)
        info = _TraceInfo(size=ctypes.sizeof(_TraceInfo))
        self._library.reprieve_replay_trace_describe(self._handle, ctypes.byref(info))
        self.events: int = info.events
        self.streams: int = info.streams
        self.first_event_line: int = info.first_event_line
        self.peak_requested_bytes: int = info.peak_requested_bytes
        self.duration_us: int = info.duration_us
        self.pools: int = info.pools

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._library.reprieve_replay_trace_free(self._handle)

    def replay(self, config: Config, *, find_min_limit: bool = False) -> Result:
        """Replays in this process, in which nothing else may have started the library.

        Raises RefusedError for a configuration that is not acceptable, FailedError where a call failed. Running out of
        memory is a result.
        """
        function = self._library.reprieve_replay_min_limit if find_min_limit else self._library.reprieve_replay_run
        samples = (_Sample * config.samples)()
        given = _Config(
            ctypes.sizeof(_Config),
            config.device.encode(),
            config.limit_bytes,
            config.capacity_bytes,
            config.repeats,
            config.policy.encode(),
            None if config.alloc_conf is None else config.alloc_conf.encode(),
            samples,
            config.samples,
        )
        out = _Result(size=ctypes.sizeof(_Result))
        error = _Error(size=ctypes.sizeof(_Error))
        _check(function(self._handle, ctypes.byref(given), ctypes.byref(out), ctypes.byref(error)), error)
        calls = {}
        for kind in range(_CALL_KINDS):
            name = self._library.reprieve_call_name(kind)
            if name is not None:
                calls[name.decode()] = out.driver_calls[kind]
        if config.policy != "reprieve":
            calls |= {"cudaMalloc": out.cuda_malloc_calls, "cudaFree": out.cuda_free_calls}
        return Result(
            completed=out.completed != 0,
            failed_at_event=out.failed_at_event if out.failed_at_event >= 0 else None,
            peak_reserved_bytes=out.peak_reserved_bytes,
            min_limit_bytes=out.min_limit_bytes or None,
            ns_per_event=_measured(out.ns_per_event),
            ns_per_event_second_pass=_measured(out.ns_per_event_second_pass),
            total_ns_per_event=_measured(out.total_ns_per_event),
            total_ns_per_event_second_pass=_measured(out.total_ns_per_event_second_pass),
            driver_us=out.driver_us,
            teardown_driver_us=out.teardown_driver_us,
            driver_calls=calls,
            alloc_retries=out.alloc_retries,
            samples=tuple(Sample(s.event, s.time_us, s.requested, s.reserved) for s in samples[: out.samples]),
        )
