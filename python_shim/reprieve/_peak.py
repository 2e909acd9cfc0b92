"""Where the peak of a snapshot sits: what was live when most was, by size, stream, pool and the user's own code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reprieve import _native
from reprieve._frames import Frames
from reprieve._snapshot_events import DeviceTrace

_MIB = 1 << 20
SIZE_CLASSES = (
    (_MIB, "up to 1 MiB"),
    (10 * _MIB, "1 to 10 MiB"),
    (100 * _MIB, "10 to 100 MiB"),
    (1024 * _MIB, "100 MiB to 1 GiB"),
    (1 << 63, "over 1 GiB"),
)
_Live = dict[int, tuple[int, int, int, int]]  # block: bytes, stream, pool, frame


def breakdown(trace: DeviceTrace, frames: Frames) -> dict[str, Any]:
    """JSON of the peak: at which event, and for each way to divide it a list of groups, the largest first."""
    event, peak = _peak(trace)
    live = _live_after(trace, event)
    streams = {stream: number for number, stream in enumerate(_streams(trace))}
    return {
        "event": event,
        "requested_bytes": peak,
        "by_size": _groups(live, lambda size, *_: next(text for most, text in SIZE_CLASSES if size <= most)),
        "by_stream": _groups(live, lambda _, stream, *__: _stream_text(stream, streams)),
        "by_pool": _groups(live, lambda _, __, pool, ___: _pool_text(trace.pool_ids[pool])),
        "by_frame": _groups(live, lambda _, __, ___, frame: frames.text(frame)),
    }


def _peak(trace: DeviceTrace) -> tuple[int, int]:
    sizes: dict[int, int] = {}
    live = peak = at = 0
    for event, (block, size, _, _, _, op, _) in enumerate(_native.EVENT.iter_unpack(trace.events)):
        if op == _native.ALLOCATE:
            sizes[block] = size
            live += size
            if live > peak:
                peak, at = live, event
        elif op == _native.FREE:
            live -= sizes.pop(block)
    return at, peak


def _live_after(trace: DeviceTrace, last: int) -> _Live:
    live: _Live = {}
    for event, (block, size, stream, _, pool, op, _) in enumerate(_native.EVENT.iter_unpack(trace.events)):
        if op == _native.ALLOCATE:
            live[block] = size, stream, pool, trace.frame[event]
        elif op == _native.FREE:
            del live[block]
        if event == last:
            break
    return live


def _streams(trace: DeviceTrace) -> list[int]:
    """Stream handles in the order in which they appear, the default stream first."""
    return list(dict.fromkeys([0] + [event[2] for event in _native.EVENT.iter_unpack(trace.events)]))


def _stream_text(stream: int, numbers: dict[int, int]) -> str:
    return "default stream" if stream == 0 else f"stream {numbers[stream]} (0x{stream:x})"


def _pool_text(pool: tuple[int, int]) -> str:
    return "default pool" if pool == (0, 0) else f"private pool ({pool[0]}, {pool[1]})"


def _groups(live: _Live, key: Callable[..., str]) -> list[dict[str, Any]]:
    groups: dict[str, list[int]] = {}
    for block in live.values():
        group = groups.setdefault(key(*block), [0, 0])
        group[0] += block[0]
        group[1] += 1
    ordered = sorted(groups.items(), key=lambda item: (-item[1][0], item[0]))
    return [{"name": name, "bytes": size, "blocks": blocks} for name, (size, blocks) in ordered]
