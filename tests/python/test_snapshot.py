"""What a snapshot becomes: events, and where its peak sits."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from snapshots import BASE, MIB, block, dumped, entry, freed, segment, snapshot, stack

from reprieve import _frames, _native, _peak, _snapshot, _snapshot_events
from reprieve._snapshot_events import DeviceTrace

DATA = Path(__file__).parent / "data"
_OPS = {_native.ALLOCATE: "a", _native.FREE: "f", _native.RECORD: "r", _native.EMPTY_CACHE: "e"}


def parts(value: Any, protocol: int = 4) -> list[DeviceTrace]:
    return _snapshot_events.device_traces(_snapshot.read(dumped(value, protocol)))


def events(trace: DeviceTrace) -> list[tuple[str, int, int, int, int]]:
    """(op, block counted from BASE, bytes, stream, time) of each event."""
    return [
        (_OPS[op], block - BASE, size, stream, time_us)
        for block, size, stream, time_us, _, op, _ in _native.EVENT.iter_unpack(trace.events)
    ]


def recorded(name: str) -> tuple[_snapshot.Snapshot, list[DeviceTrace]]:
    """One that torch 2.11 wrote (by way of a stand-in for the CUDA runtime)."""
    read = _snapshot.read(gzip.decompress((DATA / f"torch-2.11-{name}.pickle.gz").read_bytes()))
    return read, _snapshot_events.device_traces(read)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_whole_history(protocol: int) -> None:
    trace = [entry("segment_alloc", 0, 2 * MIB, 0), entry("alloc", 0, 4000, 1, 7), *freed(0, 4000, 9, 7)]
    (made,) = parts(snapshot([segment(0, 2 * MIB, [block(2 * MIB, "inactive")])], trace), protocol)
    assert events(made) == [("a", 0, 4000, 7, 1), ("f", 0, 0, 7, 9)]
    assert made.recorded_peak_reserved_bytes == 2 * MIB
    assert made.initial_blocks == made.waiting_blocks == 0 and made.notes() == []


def test_only_segments() -> None:
    blocks = [block(512), block(1024, "inactive"), block(1536, "active_awaiting_free", requested_size=1500)]
    segments = [segment(0, 2 * MIB, blocks), segment(4 * MIB, 2 * MIB, [block(2 * MIB)], device=3, stream=9)]
    for value in (segments, snapshot(segments)):
        first, second = parts(value)
        assert events(first) == [("a", 0, 512, 0, 0), ("a", 1536, 1500, 0, 0)]
        assert events(second) == [("a", 4 * MIB, 2 * MIB, 9, 0)]
        assert (first.device, second.device) == (0, 3)
        assert first.notes()[0].startswith(
            "no history in the snapshot: replayed is what was live when it was taken, 2 bl"
        )


def test_a_ring_that_has_wrapped() -> None:
    # Live before it begins: one that is freed in it, one that stays; the segment's allocation is lost too.
    trace = [*freed(512, 500, 10, 5), entry("alloc", 512, 300, 20, 5)]
    blocks = [block(512, requested_size=400), block(512, requested_size=300), block(1024, "inactive")]
    (made,) = parts(snapshot([segment(0, 2 * MIB, blocks, stream=5)], trace))
    assert events(made) == [
        ("a", 0, 400, 5, 0),
        ("a", 512, 500, 5, 0),
        ("f", 512, 0, 5, 0),
        ("a", 512, 300, 5, 10),
    ]
    assert made.initial_blocks == 2 and made.initial_bytes == 900
    assert made.recorded_peak_reserved_bytes == 2 * MIB
    assert made.notes() == [
        "live before the recorded history begins: 2 blocks (900 B), allocated first in the order of their addresses"
    ]


def test_a_free_that_waits_for_another_stream() -> None:
    trace = [
        entry("alloc", 0, 512, 0, 1),
        entry("free_requested", 0, 512, 5, 1),
        entry("alloc", 512, 512, 6, 1),
        entry("free_completed", 0, 512, 7, 1),
    ]
    (made,) = parts(snapshot([], trace))
    assert events(made) == [("a", 0, 512, 1, 0), ("a", 512, 512, 1, 6), ("f", 0, 0, 1, 7)]
    assert made.waiting_blocks == 1


def test_a_history_without_one_kind_of_free() -> None:
    trace = [entry("alloc", 0, 512), entry("free_requested", 0, 512, 5), entry("alloc", 0, 512, 6)]
    (made,) = parts(snapshot([], trace))
    assert [event[0] for event in events(made)] == ["a", "f", "a"]


def test_pools_by_the_entry_and_by_the_segment() -> None:
    segments = [
        segment(0, 2 * MIB, [block(512), block(MIB, "inactive")], segment_pool_id=(0, 3)),
        segment(4 * MIB, 2 * MIB, [block(512)], segment_pool_id=(2, 0)),
    ]
    trace = [
        entry("alloc", 0, 100, 0),  # in an earlier segment at this address, whose pool is not known
        *freed(0, 100, 1),
        entry("segment_alloc", 0, 2 * MIB, 2),
        entry("alloc", 0, 200, 3),
        entry("alloc", 4 * MIB, 300, 4),
        entry("alloc", 9 * MIB, 400, 5, pool_id=(0, 3)),
    ]
    (made,) = parts(snapshot(segments, trace))
    told = [
        (e[1], made.pool_ids[e[4]], e[6]) for e in _native.EVENT.iter_unpack(made.events) if e[5] == _native.ALLOCATE
    ]
    graph = _native.GRAPH_POOL
    assert told == [(100, (0, 0), 0), (200, (0, 3), 0), (300, (2, 0), graph), (400, (0, 3), 0)]


def test_a_request_that_failed_at_the_end_and_one_that_the_job_survived() -> None:
    trace = [
        entry("segment_alloc", 0, 2 * MIB, 0),
        entry("alloc", 0, 512, 1),
        entry("oom", 7 * MIB, 64 * MIB, 2),
        entry("alloc", 512, 512, 3),
        entry("oom", 5 * MIB, 32 * MIB, 4, frames=stack(("/home/me/train.py", 3, "step"))),
    ]
    read = _snapshot.read(dumped(snapshot([segment(0, 2 * MIB, [block(512), block(512)])], trace)))
    (made,) = _snapshot_events.device_traces(read)
    assert [(op, size) for op, _, size, _, _ in events(made)] == [
        ("a", 512),
        ("a", 64 * MIB),
        ("f", 0),
        ("a", 512),
        ("a", 32 * MIB),
    ]
    assert [(r.event, r.bytes, r.device_free_bytes, r.reserved_bytes) for r in made.failed_requests] == [
        (1, 64 * MIB, 7 * MIB, 2 * MIB),
        (4, 32 * MIB, 5 * MIB, 2 * MIB),
    ]
    assert made.notes()[1] == (
        "the job ran out of memory at event 4: 32 MiB asked, 5 MiB free on the device, 2 MiB reserved by torch "
        f"(--limit {7 * MIB} is that room)"
    )
    assert read.frames.text(made.frame[4]) == "home/me/train.py:3 step"


def given_back_then(*after: dict[str, Any], **settings: float) -> tuple[str, int]:
    """The events and the calls of empty_cache where 6 of 8 MiB are given back, and then this happens."""
    trace = [entry("segment_alloc", 8 * MIB * i, size * MIB, i) for i, size in enumerate((2, 6))]
    trace += [
        entry("alloc", 8 * MIB, 512, 3),
        *freed(8 * MIB, 512, 4),
        entry("segment_free", 8 * MIB, 6 * MIB, 5),
        *after,
    ]
    grown = sum(e["size"] for e in after if e["action"] == "segment_alloc")
    left = [segment(0, 2 * MIB, []), *([segment(16 * MIB, grown, [])] if grown else [])]
    read = _snapshot.read(dumped(snapshot(left, trace, **settings)))
    (made,) = _snapshot_events.device_traces(read)
    return "".join(event[0] for event in events(made)), made.empty_cache_calls


def test_empty_cache_is_told_from_making_room() -> None:
    alloc = entry("alloc", 16 * MIB, 512, 7)
    assert given_back_then() == ("afe", 1)
    assert given_back_then(entry("alloc", 0, 512, 6)) == ("afea", 1)
    # 8 MiB were never too many, so a new segment beside the others would have been had.
    assert given_back_then(entry("segment_alloc", 16 * MIB, 0, 6), alloc) == ("afea", 1)
    # 10 MiB were never had at once.
    assert given_back_then(entry("segment_alloc", 16 * MIB, 2 * MIB, 6), alloc) == ("afa", 0)
    assert given_back_then(entry("oom", 0, 64 * MIB, 6)) == ("afa", 0)
    collecting = {"garbage_collection_threshold": 0.8}
    assert given_back_then(entry("segment_alloc", 16 * MIB, 0, 6), alloc, **collecting) == ("afa", 0)


def test_times_of_two_cores_and_none_at_all() -> None:
    (made,) = parts(
        snapshot([], [entry("alloc", 0, 512, 1000), entry("alloc", 512, 512, 300), entry("alloc", 1024, 8, 1100)])
    )
    assert [event[4] for event in events(made)] == [0, 0, 100]
    old = [{k: v for k, v in entry("alloc", 512 * i, 512).items() if k != "time_us"} for i in range(2)]
    (made,) = parts(snapshot([], old))
    assert [event[4] for event in events(made)] == [0, 0]


def test_signed_addresses_and_streams() -> None:
    trace = [{"action": "alloc", "addr": -512, "size": 5, "stream": -1, "time_us": 1}]
    (made,) = parts(snapshot([], trace))
    assert _native.EVENT.unpack(made.events)[:3] == (2**64 - 512, 5, 2**64 - 1)


def test_what_is_not_known_does_no_harm() -> None:
    more = {"compile_context": None, "forward_frames": ["x"], "history": [{"real_size": 5, "frames": []}]}
    value = snapshot(
        [segment(0, 2 * MIB, [block(512, **more)], later={"a": [1, 2, {"b": []}]})], [entry("alloc", 0, 5, **more)]
    )
    value["external_annotations"] = [
        {"stage": "START", "name": f"n{i}", "device": 0, "time_us": i} for i in range(3000)
    ]
    value["later"] = {"x": [[], [[]], [1.5]]}
    assert len(events(parts(value)[0])) == 1


@pytest.mark.parametrize(
    ("filename", "own"),
    [
        ("/home/me/train.py", True),
        ("/home/me/torch_experiments/run.py", True),
        ("/opt/v/lib/python3.11/site-packages/transformers/models/llama/modeling_llama.py", True),
        ("/opt/v/lib/python3.11/site-packages/torch/nn/modules/module.py", False),
        ("/usr/lib/python3.11/contextlib.py", False),
        ("/usr/lib/python3/dist-packages/accelerate/x.py", True),
        ("<frozen runpy>", False),
        ("??", False),
        ("/build/torch/csrc/autograd/engine.cpp", False),
        ("/tmp/ipykernel_12/345.py", True),
    ],
)
def test_whose_file_it_is(filename: str, own: bool) -> None:
    assert _frames.is_own(filename) is own


def test_the_peak_by_each_way_to_divide_it() -> None:
    inner = ("/v/site-packages/torch/nn/functional.py", 1, "linear")
    user = stack(inner, ("/home/me/model.py", 88, "forward"), ("/home/me/train.py", 5, "main"))
    backward = stack(("??", 0, "torch::autograd::Engine::evaluate_function(...)"))
    trace = [
        entry("alloc", 0, 64 * MIB, 0, frames=user),
        entry("alloc", 64 * MIB, 3 * MIB, 1, 5, frames=backward),
        entry("alloc", 70 * MIB, 512, 2),
        *freed(0, 64 * MIB, 3),
    ]
    read = _snapshot.read(dumped(snapshot([], trace)))
    told = _peak.breakdown(_snapshot_events.device_traces(read)[0], read.frames)
    assert told["event"] == 2 and told["requested_bytes"] == 67 * MIB + 512
    assert [(g["name"], g["bytes"], g["blocks"]) for g in told["by_size"]] == [
        ("10 to 100 MiB", 64 * MIB, 1),
        ("1 to 10 MiB", 3 * MIB, 1),
        ("up to 1 MiB", 512, 1),
    ]
    assert [g["name"] for g in told["by_stream"]] == ["default stream", "stream 1 (0x5)"]
    assert [g["name"] for g in told["by_pool"]] == ["default pool"]
    assert [g["name"] for g in told["by_frame"]] == [
        "home/me/model.py:88 forward",
        "torch's backward pass, no Python frame",
        "no stack recorded",
    ]


def test_a_stack_longer_than_a_pickler_s_batch() -> None:
    long = stack(*(("/v/torch/x.py", i, "f") for i in range(1500)), ("/home/me/train.py", 1, "main"))
    read = _snapshot.read(
        dumped(snapshot([], [entry("alloc", 0, 1, frames=long), entry("alloc", 512, 1, frames=long[:3])]))
    )
    (made,) = _snapshot_events.device_traces(read)
    assert [read.frames.text(f) for f in made.frame] == ["home/me/train.py:1 main", "no stack recorded"]


# What the numbers should be: torch.cuda.max_memory_reserved() in the program that was recorded.


def test_recorded_streams_pools_graphs_devices_and_a_failure() -> None:
    read, (first, second) = recorded("rich")
    assert (first.recorded_peak_reserved_bytes, second.recorded_peak_reserved_bytes) == (111149056, 20971520)
    assert first.waiting_blocks == 1 and [r.bytes for r in first.failed_requests] == [1 << 34]
    assert {first.pool_ids[e[4]] for e in _native.EVENT.iter_unpack(first.events)} == {(0, 0), (0, 1), (1, 0)}
    assert "fixture.py:9 layer" in read.frames.text(first.frame[0])


def test_recorded_after_it_began_with_a_small_ring() -> None:
    _, (made,) = recorded("wrapped")
    assert made.recorded_peak_reserved_bytes == 41943040 and made.initial_blocks == 7


def test_recorded_segments_and_expandable_segments() -> None:
    _, (made,) = recorded("segments")
    assert len(made.frame) == 5 and not made.has_trace
    read, (made,) = recorded("expandable")
    assert made.recorded_peak_reserved_bytes == 188743680 and read.settings["expandable_segments"] is True


@pytest.mark.parametrize("name", ["rich", "wrapped", "segments", "expandable"])
def test_recorded_snapshots_make_traces(name: str) -> None:
    for made in recorded(name)[1]:
        trace = _native.Trace.from_events(made.events)
        assert trace.events == len(made.frame) == len(made.entry)
