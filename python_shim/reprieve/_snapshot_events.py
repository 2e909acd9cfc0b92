"""One device's part of a snapshot as events for a replay.

What a snapshot leaves open is decided here: a ring of entries that has wrapped, blocks whose allocation was never
recorded, which pool an address belongs to, and requests that failed.
"""

from __future__ import annotations

import bisect
from array import array
from dataclasses import dataclass, field

from reprieve import _native, _sizes
from reprieve import _snapshot as sn
from reprieve._snapshot import Segment, Snapshot, SnapshotError

_LATE_US = 1000  # by so much the clocks of two cores may differ; entries are written by whichever thread allocates
_NO_ENTRY = 0xFFFF_FFFF
_SIGNS = {sn.SEGMENT_ALLOC: 1, sn.SEGMENT_MAP: 1, sn.SEGMENT_FREE: -1, sn.SEGMENT_UNMAP: -1}
_FIRST_FAILED_ID = 1 << 63  # ids of requests that failed: no address is so large


@dataclass
class FailedRequest:
    """A request that torch could not satisfy in the recorded job: an allocation in the replay."""

    event: int
    bytes: int
    device_free_bytes: int
    reserved_bytes: int | None  # by torch's allocator then; None where the snapshot does not tell


@dataclass
class DeviceTrace:
    """Events for _native.Trace.from_events, and what is known beside them of each, by its number."""

    device: int
    events: bytearray = field(default_factory=bytearray)
    frame: array[int] = field(default_factory=lambda: array("I"))  # in Snapshot.frames
    entry: array[int] = field(default_factory=lambda: array("I"))  # in the device's trace; initial ones: none
    initial_blocks: int = 0
    initial_bytes: int = 0
    waiting_blocks: int = 0
    empty_cache_calls: int = 0
    failed_requests: list[FailedRequest] = field(default_factory=list)
    recorded_peak_reserved_bytes: int | None = None
    pool_ids: list[tuple[int, int]] = field(default_factory=list)
    has_trace: bool = False

    def place(self, event: int) -> str:
        """What an error calls the event's origin."""
        entry = self.entry[event]
        if entry == _NO_ENTRY:
            return f"block {event} of those live at the beginning"
        return f"device_traces[{self.device}][{entry}]"

    def notes(self) -> list[str]:
        """What a reader of the results should know, a line each."""
        lines = []
        blocks = f"{_count(self.initial_blocks, 'block')} ({_sizes.short(self.initial_bytes)})"
        if not self.has_trace:
            lines.append(
                f"no history in the snapshot: replayed is what was live when it was taken, {blocks}, in the order "
                "of their addresses; torch.cuda.memory._record_memory_history() records one"
            )
        elif self.initial_blocks:
            lines.append(
                f"live before the recorded history begins: {blocks}, allocated first in the order of their addresses"
            )
        if self.waiting_blocks:
            lines.append(
                f"{_count(self.waiting_blocks, 'block')} had to wait for another stream when freed, and count as live "
                "until torch could use the memory again"
            )
        for request in self.failed_requests[:3]:
            text = f"the job ran out of memory at event {request.event:,}: {_sizes.short(request.bytes)} asked, "
            text += f"{_sizes.short(request.device_free_bytes)} free on the device"
            if request.reserved_bytes is not None:
                room = request.reserved_bytes + request.device_free_bytes
                text += f", {_sizes.short(request.reserved_bytes)} reserved by torch (--limit {room} is that room)"
            lines.append(text)
        if len(self.failed_requests) > 3:
            lines.append(f"and at {len(self.failed_requests) - 3:,} more events")
        return lines


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def device_traces(snapshot: Snapshot) -> list[DeviceTrace]:
    """One for each device that has anything. Raises SnapshotError where the entries contradict themselves."""
    devices = {segment.device for segment in snapshot.segments}
    devices |= {device for device, entries in enumerate(snapshot.traces) if entries}
    made = [trace for trace in (_Maker(snapshot, device).make() for device in sorted(devices)) if trace.events]
    if not made:
        raise SnapshotError(
            "the snapshot has no block and no allocation, it must be taken while the job has CUDA memory, or with a "
            "history (torch.cuda.memory._record_memory_history())"
        )
    return made


class _Pools:
    """Which private pool an address is in, by the segments that the snapshot lists."""

    def __init__(self, segments: list[Segment], snapshot: Snapshot, entries: range) -> None:
        private = sorted((s for s in segments if s.pool), key=lambda s: s.address)
        self._begins = [s.address for s in private]
        self._private = private
        # A segment of an earlier life of the address may have been another pool's.
        since = dict.fromkeys(self._begins, 0)
        if private:
            for i in entries:
                if snapshot.entries.action[i] == sn.SEGMENT_ALLOC and snapshot.entries.address[i] in since:
                    since[snapshot.entries.address[i]] = i
        self._since = since

    def find(self, address: int, entry: int) -> int:
        at = bisect.bisect_right(self._begins, address) - 1
        if at < 0:
            return 0
        segment = self._private[at]
        inside = address < segment.address + segment.size
        return segment.pool if inside and (segment.expandable or entry >= self._since[segment.address]) else 0


class _Maker:
    def __init__(self, snapshot: Snapshot, device: int) -> None:
        self._snapshot = snapshot
        self._columns = snapshot.entries
        self._entries = snapshot.traces[device] if device < len(snapshot.traces) else range(0)
        self._segments = [segment for segment in snapshot.segments if segment.device == device]
        self._pools = _Pools(self._segments, snapshot, self._entries)
        self._out = DeviceTrace(device, pool_ids=snapshot.pools, has_trace=bool(self._entries))
        self._most_change = 0
        self._reserved_at_failures: dict[int, int] = {}
        # Recorded with skip_actions, a history may have one of the two only.
        actions = memoryview(self._columns.action)[self._entries.start : self._entries.stop].tobytes()
        self._free = sn.FREE_COMPLETED if bytes([sn.FREE_COMPLETED]) in actions else sn.FREE_REQUESTED

    def make(self) -> DeviceTrace:
        self._measure_reserved()
        self._allocate_initial(self._initial_blocks())
        self._follow_entries()
        return self._out

    def _wrong(self, entry: int, text: str) -> SnapshotError:
        return SnapshotError(f"device_traces[{self._out.device}][{entry - self._entries.start}]: {text}")

    def _initial_blocks(self) -> dict[int, tuple[int, int, int]]:
        """address: (bytes, stream, frame) of what was live before the first entry."""
        action, address, size, stream = (
            self._columns.action,
            self._columns.address,
            self._columns.size,
            self._columns.stream,
        )
        initial: dict[int, tuple[int, int, int]] = {}
        live: set[int] = set()
        freed: set[int] = set()
        for i in self._entries:
            code = action[i]
            if code == sn.ALLOC:
                if address[i] in live:
                    raise self._wrong(i, f"0x{address[i]:x} is allocated while it is live, it must be freed first")
                live.add(address[i])
            elif code == self._free:
                if address[i] in live:
                    live.remove(address[i])
                elif address[i] in freed:
                    raise self._wrong(i, f"0x{address[i]:x} is freed again, it must be allocated in between")
                else:
                    initial[address[i]] = (size[i], stream[i], 0)
                freed.add(address[i])
        blocks = self._snapshot.blocks
        for segment in self._segments:
            at = segment.address
            for i in segment.blocks:
                if blocks.state[i] != sn.INACTIVE and at not in live:
                    if at in freed:
                        raise SnapshotError(
                            f"block 0x{at:x} is live in segments but was freed last in device_traces"
                            f"[{self._out.device}], the two must be of one moment"
                        )
                    initial[at] = (blocks.requested[i], segment.stream, blocks.frame[i])
                at += blocks.size[i]
        return initial

    def _add(
        self, op: int, block: int, size: int, stream: int, time_us: int, pool: int, frame: int, entry: int
    ) -> None:
        flags = 0
        if pool and self._snapshot.pools[pool][0] and not self._snapshot.pools[pool][1]:
            flags = _native.GRAPH_POOL  # torch numbers the pools that a capture makes for itself so
        self._out.events += _native.EVENT.pack(block, size, stream, time_us, pool, op, flags)
        self._out.frame.append(frame)
        self._out.entry.append(entry)

    def _allocate_initial(self, blocks: dict[int, tuple[int, int, int]]) -> None:
        for address, (size, stream, frame) in sorted(blocks.items()):
            pool = self._pools.find(address, self._entries.start)
            self._add(_native.ALLOCATE, address, size, stream, 0, pool, frame, _NO_ENTRY)
            self._out.initial_bytes += size
        self._out.initial_blocks = len(blocks)

    def _follow_entries(self) -> None:
        columns, entries = self._columns, self._entries
        if not entries:
            return
        emptied = self._empty_cache_calls()
        self._out.empty_cache_calls = len(emptied)
        first = latest = columns.time_us[entries.start]
        last_alloc = max((i for i in entries if columns.action[i] == sn.ALLOC), default=-1)
        for i in entries:
            code = columns.action[i]
            time_us = columns.time_us[i]
            if time_us < latest:
                if latest - time_us > _LATE_US:
                    raise self._wrong(
                        i, f"time_us {time_us} is {latest - time_us} us before the entry above, accepted are {_LATE_US}"
                    )
                time_us = latest
            latest = time_us
            at = time_us - first
            address, size, stream = columns.address[i], columns.size[i], columns.stream[i]
            entry = i - entries.start
            if i in emptied:
                self._add(_native.EMPTY_CACHE, 0, 0, 0, at, 0, 0, entry)
            if code == sn.ALLOC:
                pool = columns.pool[i]
                if pool == sn.UNKNOWN_POOL:
                    pool = self._pools.find(address, i)
                self._add(_native.ALLOCATE, address, size, stream, at, pool, columns.frame[i], entry)
            elif code == self._free:
                # The size is not repeated: some versions write the block's here, others what was asked for.
                self._add(_native.FREE, address, 0, stream, at, 0, 0, entry)
            elif code == sn.FREE_REQUESTED:
                done = i + 1 < entries.stop and columns.action[i + 1] == sn.FREE_COMPLETED
                self._out.waiting_blocks += not (done and columns.address[i + 1] == address)
            elif code == sn.OOM:
                self._fail(i, at, last_alloc)

    def _fail(self, i: int, at: int, last_alloc: int) -> None:
        columns = self._columns
        block = _FIRST_FAILED_ID + len(self._out.failed_requests)
        event = len(self._out.frame)
        pool = columns.pool[i] if columns.pool[i] != sn.UNKNOWN_POOL else 0
        entry = i - self._entries.start
        then = self._reserved_at_failures.get(i)
        self._out.failed_requests.append(FailedRequest(event, columns.size[i], columns.address[i], then))
        self._add(_native.ALLOCATE, block, columns.size[i], columns.stream[i], at, pool, columns.frame[i], entry)
        if i < last_alloc:  # the job went on without it
            self._add(_native.FREE, block, 0, columns.stream[i], at, 0, 0, entry)

    def _measure_reserved(self) -> None:
        """What torch had reserved, from the segments' entries and from what is left of them at the end."""
        change = peak = 0
        at_failure: dict[int, int] = {}
        for i in self._entries:
            code = self._columns.action[i]
            if code == sn.OOM:
                at_failure[i] = change
            elif code in _SIGNS:
                change += _SIGNS[code] * self._columns.size[i]
                peak = max(peak, change)
        self._most_change = peak
        before = sum(segment.size for segment in self._segments) - change
        if before < 0:
            return  # a snapshot without its segments
        self._out.recorded_peak_reserved_bytes = before + peak
        self._reserved_at_failures = {i: before + then for i, then in at_failure.items()}

    def _empty_cache_calls(self) -> set[int]:
        """Entries before which the job called empty_cache.

        It leaves no entry of its own, only segments that are given back. torch also gives them back to make room for a
        new one; but where that one would have fitted beside them, by the most that the job ever had, it had no need to.
        """
        action, size = self._columns.action, self._columns.size
        collects = bool(self._snapshot.settings.get("garbage_collection_threshold"))
        calls: set[int] = set()
        reserved = 0  # beyond what was at the beginning, as is _most_change
        begin, before = -1, 0  # the run of entries that give segments back, and what was reserved before it
        for i in self._entries:
            code = action[i]
            if code in (sn.SEGMENT_FREE, sn.SEGMENT_UNMAP):
                if begin < 0:
                    begin, before = i, reserved
            elif begin >= 0 and code not in (sn.FREE_COMPLETED, sn.SNAPSHOT):
                makes_room = code in (sn.SEGMENT_ALLOC, sn.SEGMENT_MAP)
                needed = makes_room and (collects or before + size[i] > self._most_change)
                if not needed and code != sn.OOM:
                    calls.add(begin)
                begin = -1
            reserved += _SIGNS.get(code, 0) * size[i]
        return calls | ({begin} if begin >= 0 else set())
