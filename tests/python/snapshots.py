"""Snapshots as torch 2.11 writes them, made up for tests."""

from __future__ import annotations

import pickle
from typing import Any

MIB = 1 << 20
BASE = 0x7F00_0000_0000
START_US = 1_796_142_445_053_299


def entry(action: str, addr: int, size: int, time_us: int = 0, stream: int = 0, **more: Any) -> dict[str, Any]:
    """An entry of a device's trace, `addr` counted from BASE, `time_us` from START_US."""
    where = {"device_free": addr} if action == "oom" else {"addr": BASE + addr}
    made = {"action": action, **where, "size": size, "stream": stream, "time_us": START_US + time_us}
    return made | {"compile_context": "N/A", "user_metadata": ""} | more


def freed(addr: int, size: int, time_us: int = 0, stream: int = 0) -> list[dict[str, Any]]:
    """The two entries of a free that waits for nothing."""
    return [entry(action, addr, size, time_us, stream) for action in ("free_requested", "free_completed")]


def block(size: int, state: str = "active_allocated", **more: Any) -> dict[str, Any]:
    return {"size": size, "requested_size": size, "state": state, "frames": []} | more


def segment(addr: int, size: int, blocks: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A segment at BASE + addr."""
    made = {"device": 0, "address": BASE + addr, "total_size": size, "stream": 0, "segment_type": "large"}
    return made | {"segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks} | more


def snapshot(segments: list[Any], *traces: list[Any], **settings: Any) -> dict[str, Any]:
    made = {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False, "garbage_collection_threshold": 0.0}
    return {
        "segments": segments,
        "device_traces": list(traces),
        "allocator_settings": made | settings,
        "external_annotations": [],
    }


def stack(*frames: tuple[str, int, str]) -> list[dict[str, Any]]:
    """Frames from the innermost to the outermost."""
    return [{"filename": filename, "line": line, "name": name} for filename, line, name in frames]


def dumped(value: Any, protocol: int = 4) -> bytes:
    return pickle.dumps(value, protocol)


def large(entries: int, frames: int, distinct: int) -> bytes:
    """A long history: blocks that come and go, each with one of `distinct` stacks of `frames` frames."""
    known = stack(*((f"/usr/lib/python3/dist-packages/p{i % 97}.py", i, f"f{i}") for i in range(4 * max(frames, 1))))
    stacks = [[known[(i * 7 + j) % len(known)] for j in range(frames)] for i in range(distinct)]
    trace = []
    for i in range(entries // 3):
        addr, size, time_us = 512 * (i % 65_536), 4096 + i % 8192, 5 * i
        # Fresh lists, as torch makes them: only the frames are the same objects.
        trace.append(entry("alloc", addr, size, time_us, frames=list(stacks[i % distinct]) if frames else []))
        trace += freed(addr, size, time_us + 1)
    return dumped(snapshot([], trace))
