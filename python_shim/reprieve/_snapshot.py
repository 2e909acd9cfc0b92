"""torch's memory snapshots (torch.cuda.memory._dump_snapshot, or _snapshot() pickled), read without torch.

What a snapshot says is kept in columns of numbers: 41 bytes a trace entry, where the file has 60 and more.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from reprieve import _frames, _pickle_machine
from reprieve._pickle_machine import PickleError

ACTIONS = (
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
    "user_defined",
)
(
    ALLOC,
    FREE_REQUESTED,
    FREE_COMPLETED,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    SNAPSHOT,
    OOM,
    USER,
) = range(len(ACTIONS))
_CODES = {name: code for code, name in enumerate(ACTIONS)}
# Every writer's word for the same: a block that its program freed while another stream's work was not done.
STATES = {"inactive": 0, "active_allocated": 1, "active_awaiting_free": 2, "active_pending_free": 2}
INACTIVE = 0
UNKNOWN_POOL = 0xFFFF
_LARGEST = 2**63 - 1
_LONGEST_GROUP = 1 << 16


class SnapshotError(Exception):
    """The file is no snapshot. The text says where and what is accepted."""


@dataclass
class Segment:
    """Memory that torch's allocator has taken from the driver, and the run of blocks in it."""

    device: int
    address: int
    size: int
    stream: int
    pool: int  # an index into Snapshot.pools
    expandable: bool
    blocks: range  # of Snapshot.blocks


@dataclass
class Columns:
    """Trace entries of all devices, in columns. `pool` is UNKNOWN_POOL where the entry does not say."""

    action: array[int] = field(default_factory=lambda: array("B"))
    address: array[int] = field(default_factory=lambda: array("Q"))  # of an oom: the device's free memory
    size: array[int] = field(default_factory=lambda: array("Q"))
    stream: array[int] = field(default_factory=lambda: array("Q"))
    time_us: array[int] = field(default_factory=lambda: array("Q"))
    frame: array[int] = field(default_factory=lambda: array("I"))
    pool: array[int] = field(default_factory=lambda: array("H"))


@dataclass
class Blocks:
    """Blocks of all segments, in columns."""

    size: array[int] = field(default_factory=lambda: array("Q"))
    requested: array[int] = field(default_factory=lambda: array("Q"))
    state: array[int] = field(default_factory=lambda: array("B"))
    frame: array[int] = field(default_factory=lambda: array("I"))


@dataclass
class Snapshot:
    """What a file says. `traces` has a range of `entries` for each device, in the order in which they were recorded."""

    entries: Columns
    blocks: Blocks
    segments: list[Segment]
    traces: list[range]
    pools: list[tuple[int, int]]  # ids; the first is the default pool's, (0, 0)
    frames: _frames.Frames
    settings: dict[str, Any]
    has_times: bool


class _Token:
    """Stands for what was kept in columns; which it was is known by the order."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


_ENTRY, _BLOCK, _SEGMENT, _OTHER = (_Token(n) for n in ("a trace entry", "a block", "a segment", "something else"))
_NO_STACK = _frames.Stack(0, False)


@dataclass
class _Run:
    """A list of entries, blocks or segments that stand one after another in their columns."""

    of: _Token
    begin: int
    end: int


class _Builder:
    """Keeps the parts of a snapshot as the pickle machine completes them."""

    def __init__(self) -> None:
        self.entries, self.blocks = Columns(), Blocks()
        self.segments: list[Segment] = []
        self.pools: dict[tuple[int, int], int] = {(0, 0): 0}
        self.frames = _frames.Frames()
        self.settings: dict[str, Any] = {}
        self.bad: dict[int, str] = {}  # what is wrong with an entry; its place is not known yet
        self.has_times = True
        self._listed = {_ENTRY: 0, _BLOCK: 0, _SEGMENT: 0}
        self._stacks: dict[bytes, _frames.Stack] = {}

    # The pickle machine's Builder

    def fields(self, items: dict[str, Any]) -> Any:
        if "action" in items:
            return self._entry(items)
        if "filename" in items and "line" in items:
            return self.frames.frame(items)
        if "blocks" in items and "total_size" in items:
            return self._segment(items)
        if "state" in items and "size" in items:
            return self._block(items)
        if "segments" in items or "device_traces" in items:
            return items
        if "expandable_segments" in items or "garbage_collection_threshold" in items:
            self.settings = {k: v for k, v in items.items() if isinstance(v, (str, int, float, bool))}
        return _OTHER

    def items(self, before: Any, items: list[Any]) -> Any:
        first = items[0] if items else None
        if isinstance(first, _frames.Frame) and (before is None or isinstance(before, _frames.Stack)):
            return self._stack(items) if before is None or not before.own else before
        if isinstance(first, _Token) and first is not _OTHER:
            return self._run(before, first, items)
        if isinstance(first, (_Run, _pickle_machine.Items, _frames.Stack)):
            traces = before if isinstance(before, list) else []
            if len(traces) + len(items) > 4096:
                raise SnapshotError("device_traces: more than 4,096 lists, a snapshot has one a device")
            return traces + items
        return _OTHER

    def known(self, items: list[Any], key: bytes) -> Any:
        made = self._stack(items) if items and isinstance(items[0], _frames.Frame) else self.items(None, items)
        if isinstance(made, _frames.Stack):
            if len(self._stacks) == _LONGEST_GROUP:
                self._stacks.clear()
            if len(key) < _LONGEST_GROUP:
                self._stacks[key] = made
        return made if items else _NO_STACK

    def cached(self, key: bytes) -> Any:
        return self._stacks.get(key)

    # Parts

    def _stack(self, items: list[Any]) -> _frames.Stack:
        if not all(isinstance(item, _frames.Frame) for item in items):
            raise SnapshotError("a list of stack frames has something else in it")
        return self.frames.stack(items)

    def _run(self, before: Any, of: _Token, items: list[Any]) -> _Run:
        made = {_ENTRY: len(self.entries.action), _BLOCK: len(self.blocks.size), _SEGMENT: len(self.segments)}[of]
        begin = self._listed[of]
        if any(item is not of for item in items) or begin + len(items) != made:
            raise SnapshotError(f"{of.name} is in a list with others, or in two lists")
        self._listed[of] = made
        if before is None:
            return _Run(of, begin, made)
        if not isinstance(before, _Run) or before.of is not of or before.end != begin:
            raise SnapshotError(f"{of.name} is in a list with others")
        before.end = made
        return before

    def _entry(self, items: dict[str, Any]) -> _Token:
        entries = self.entries
        action = items["action"]
        code = _CODES.get(action) if type(action) is str else None
        size, stream, time_us = items.get("size", 0), items.get("stream", 0), items.get("time_us")
        address = items.get("device_free", items.get("addr", 0)) if code == OOM else items.get("addr", 0)
        if time_us is None:
            self.has_times = False
            time_us = 0
        if code is None:
            wrong = f"action {action!r} is unknown, accepted are {', '.join(ACTIONS)}"
        elif (
            size.__class__ is int and stream.__class__ is int and address.__class__ is int and time_us.__class__ is int
        ):
            # Addresses and streams are written as signed numbers by some versions.
            address &= 0xFFFF_FFFF_FFFF_FFFF
            stream &= 0xFFFF_FFFF_FFFF_FFFF
            if 0 <= size <= _LARGEST and 0 <= time_us <= _LARGEST:
                entries.action.append(code)
                entries.address.append(address)
                entries.size.append(size)
                entries.stream.append(stream)
                entries.time_us.append(time_us)
                frames = items.get("frames")
                entries.frame.append(frames.frame if frames.__class__ is _frames.Stack else 0)
                pool = items.get("pool_id")
                entries.pool.append(UNKNOWN_POOL if pool is None else self._pool(pool))
                return _ENTRY
            name, value = ("time_us", time_us) if 0 <= size <= _LARGEST else ("size", size)
            wrong = f"{name} {value} is out of range, accepted are whole numbers from 0 to {_LARGEST}"
        else:
            named = {"size": size, "stream": stream, "addr": address, "time_us": time_us}
            name, value = next((n, v) for n, v in named.items() if v.__class__ is not int)
            wrong = f"{name} {_shown(value)} is not a whole number, accepted are those from 0 to {_LARGEST}"
        self.bad.setdefault(len(entries.action), wrong[:300])
        for column in vars(entries).values():
            column.append(0)
        if len(self.bad) > 100:
            raise SnapshotError(f"a trace entry has {wrong[:300]}")
        return _ENTRY

    def _block(self, items: dict[str, Any]) -> _Token:
        place = f"block {len(self.blocks.size) - self._listed[_BLOCK]} of segment {len(self.segments)}"
        size = _number(place, items, "size")
        state = STATES.get(items["state"]) if isinstance(items["state"], str) else None
        if state is None:
            raise SnapshotError(f"{place}: state {_shown(items['state'])} is unknown, accepted are {', '.join(STATES)}")
        requested = _number(place, items, "requested_size") if "requested_size" in items else size
        self.blocks.size.append(size)
        self.blocks.requested.append(requested or size)
        self.blocks.state.append(state)
        frames = items.get("frames")
        self.blocks.frame.append(frames.frame if isinstance(frames, _frames.Stack) else 0)
        return _BLOCK

    def _segment(self, items: dict[str, Any]) -> _Token:
        place = f"segment {len(self.segments)}"
        run = items["blocks"]
        if isinstance(run, _Run) and run.of is _BLOCK:
            blocks = range(run.begin, run.end)
            run.begin = run.end  # a second segment would have none of them
        elif isinstance(run, (_pickle_machine.Items, _frames.Stack)):
            blocks = range(0)
        else:
            raise SnapshotError(f"{place}: blocks is not a list of blocks")
        size = _number(place, items, "total_size")
        taken = sum(self.blocks.size[i] for i in blocks)
        if taken > size:
            raise SnapshotError(f"{place}: its blocks have {taken} bytes, its total_size is {size}")
        self.segments.append(
            Segment(
                device=_number(place, items, "device", default=0),
                address=_number(place, items, "address", default=0),
                size=size,
                stream=items.get("stream", 0) & 0xFFFF_FFFF_FFFF_FFFF if type(items.get("stream", 0)) is int else 0,
                pool=self._pool(items.get("segment_pool_id", (0, 0))),
                expandable=items.get("is_expandable") is True,
                blocks=blocks,
            )
        )
        return _SEGMENT

    def _pool(self, pool_id: Any) -> int:
        known = self.pools.get(pool_id) if type(pool_id) is tuple else None
        if known is not None:
            return known
        if not (type(pool_id) is tuple and len(pool_id) == 2 and all(type(i) is int and i >= 0 for i in pool_id)):
            raise SnapshotError(f"pool id {_shown(pool_id)}, accepted are pairs of whole numbers")
        if len(self.pools) == UNKNOWN_POOL:
            raise SnapshotError(f"pool id {pool_id} is one too many, accepted are {UNKNOWN_POOL} different ones")
        self.pools[pool_id] = len(self.pools)
        return len(self.pools) - 1


def _shown(value: Any) -> str:
    if isinstance(value, (str, int, float, tuple, type(None))):
        return repr(value)[:100]
    return "(a container)"


def _number(place: str, items: dict[str, Any], name: str, default: int | None = None) -> int:
    value = items.get(name, default)
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise SnapshotError(
            f"{place}: {name} {_shown(value)} is not accepted, accepted are whole numbers from 0 to {_LARGEST}"
        )
    return value


def _run_of(what: str, value: Any, of: _Token) -> range:
    if isinstance(value, _Run) and value.of is of:
        return range(value.begin, value.end)
    if isinstance(value, (_pickle_machine.Items, _frames.Stack)):  # an empty list
        return range(0)
    raise SnapshotError(f"{what} is not a list of what a snapshot has there")


def read(data: bytes, progress: Callable[[int], None] = lambda position: None) -> Snapshot:
    """The snapshot in a pickle. Raises SnapshotError where it is none; what is checked here is its form."""
    builder = _Builder()
    try:
        outer = _pickle_machine.read(data, builder, progress)
    except PickleError as error:
        raise SnapshotError(str(error)) from None
    if isinstance(outer, _Run) or (not isinstance(outer, dict) and _is_empty(outer)):
        outer = {"segments": outer}  # torch.cuda.memory_snapshot(): the list of segments alone
    if not isinstance(outer, dict) or ("segments" not in outer and "device_traces" not in outer):
        raise SnapshotError(
            "the pickle is no memory snapshot, accepted are torch.cuda.memory._dump_snapshot's files and the pickled "
            "results of torch.cuda.memory._snapshot() and torch.cuda.memory_snapshot()"
        )
    _run_of("segments", outer.get("segments", _NO_STACK), _SEGMENT)
    listed = outer.get("device_traces", _NO_STACK)
    traces = [] if _is_empty(listed) else listed
    if not isinstance(traces, list):
        raise SnapshotError("device_traces is not a list with one list a device")
    ranges = [_run_of(f"device_traces[{i}]", trace, _ENTRY) for i, trace in enumerate(traces)]
    for device, entries in enumerate(ranges):
        for place, wrong in builder.bad.items():
            if place in entries:
                raise SnapshotError(f"device_traces[{device}][{place - entries.start}]: {wrong}")
    if sum(map(len, ranges)) != len(builder.entries.action) or len({r.start for r in ranges if r}) != sum(
        map(bool, ranges)
    ):
        raise SnapshotError("device_traces has the same list twice, or trace entries are elsewhere in the pickle")
    pools = list(builder.pools)
    return Snapshot(
        builder.entries,
        builder.blocks,
        builder.segments,
        ranges,
        pools,
        builder.frames,
        builder.settings,
        builder.has_times,
    )


def _is_empty(value: Any) -> bool:
    return isinstance(value, (_pickle_machine.Items, _frames.Stack))
