"""Memory history, snapshots, and what reads them."""

from __future__ import annotations

import pathlib
import pickle
from typing import Any

import pytest
import torch
from facts import empty, live
from pair import both, ours
from torch.cuda import _memory_viz


def record(**how: Any) -> None:
    # Stacks of C++ too would be looked up with addr2line, for many seconds.
    torch.cuda.memory._record_memory_history(stacks="python", **how)


def trace(device: int = 0) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = torch.cuda.memory._snapshot()["device_traces"][device]
    return entries


def of_blocks(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without those of segments, which are a matter of policy."""
    return [entry for entry in entries if not entry["action"].startswith("segment")]


def actions(entries: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(entry["action"], entry["size"], entry["stream"]) for entry in of_blocks(entries)]


def in_function(frames: list[dict[str, Any]], name: str) -> bool:
    return any(frame["name"] == name and frame["filename"] == __file__ and frame["line"] > 0 for frame in frames)


@both()
def test_actions_in_their_order() -> list[Any]:
    record()
    stream = torch.cuda.Stream()
    first = empty(1000)
    with torch.cuda.stream(stream):
        second = empty(5 << 20)
    del first
    third = empty(3000)
    del second, third
    entries = of_blocks(trace())
    names = [tuple(sorted(entry)) for entry in entries]
    times = [entry["time_us"] for entry in entries]
    assert times == sorted(times)
    return [actions(entries), names, [in_function(e.get("frames", []), "test_actions_in_their_order") for e in entries]]


@both()
def test_frees_refer_to_their_allocations() -> list[Any]:
    record()
    held = [empty(size) for size in (100, 2000, 30000)]
    addresses = [tensor.data_ptr() for tensor in held]
    del held
    places = {address: index for index, address in enumerate(addresses)}
    return [(entry["action"], places.get(entry["addr"])) for entry in of_blocks(trace()) if entry["action"] != "snapshot"]


@pytest.mark.parametrize("context", [None, "state", "alloc", "all"])
@both()
def test_levels_of_stacks(context: str | None) -> list[Any]:
    record(context=context)  # type: ignore[arg-type]
    held = empty(1000)
    del (gone := [empty(2000)])[:]
    entries = of_blocks(trace())
    blocks = [b for s in torch.cuda.memory_snapshot() for b in s["blocks"] if b["state"] == "active_allocated"]
    return [
        [(entry["action"], in_function(entry.get("frames", []), "test_levels_of_stacks")) for entry in entries],
        [(block["requested_size"], in_function(block.get("frames", []), "test_levels_of_stacks")) for block in blocks],
        held.nbytes,
        gone,
    ]


@both()
def test_ring_keeps_the_newest() -> list[Any]:
    record(max_entries=7)
    for size in range(1000, 1010):
        empty(size)
    out = [actions(trace())]
    record(max_entries=100, clear_history=True)
    empty(6000)
    return [*out, actions(trace())]


@both()
def test_off_and_on_again() -> list[Any]:
    empty(900)
    out = [actions(trace())]
    record()
    held = empty(1000)
    record(enabled=None)
    out.append(actions(trace()))
    empty(1100)
    out.append(actions(trace()))
    record()
    del held
    return [*out, actions(trace())]


@pytest.mark.parametrize("skipped", [["free_requested"], ["alloc", "snapshot"], ["free_completed", "free_requested"]])
@both()
def test_skipped_actions(skipped: list[str]) -> list[Any]:
    record(skip_actions=skipped)
    empty(1000)
    return actions(trace())


@both()
def test_an_unknown_action_is_refused() -> str:
    with pytest.raises((RuntimeError, ValueError)) as caught:
        record(skip_actions=["teleported"])
    return type(caught.value).__name__


@both()
def test_free_completed_waits_for_other_streams() -> list[Any]:
    record()
    side = torch.cuda.Stream()
    block = empty(1 << 20)
    block.record_stream(side)
    del block
    torch.cuda.synchronize()
    empty(3 << 20)
    torch.cuda.empty_cache()
    return sorted(actions(trace()))


@both()
def test_snapshot_fields_and_states() -> list[Any]:
    record()
    side = torch.cuda.Stream()
    held = [empty(size) for size in (100, 1000, 2 << 20)]
    with torch.cuda.stream(side):
        held.append(empty(4 << 20))
    gone = empty(50_000)
    del gone
    snapshot = torch.cuda.memory._snapshot()
    segments = snapshot["segments"]
    for segment in segments:
        blocks = segment["blocks"]
        assert sum(block["size"] for block in blocks) == segment["total_size"]
        assert [block["address"] for block in blocks] == [
            segment["address"] + sum(block["size"] for block in blocks[:index]) for index in range(len(blocks))
        ]
        for size, states in (("allocated_size", {"active_allocated"}), ("active_size", {"active_allocated", "active_pending_free"})):
            assert segment[size] == sum(block["size"] for block in blocks if block["state"] in states)
        assert segment["requested_size"] == sum(block["requested_size"] for block in blocks if block["state"] != "inactive")
    addresses = {block["address"] for segment in segments for block in segment["blocks"]}
    settings = snapshot["allocator_settings"]
    return [
        sorted(snapshot),
        sorted({key for segment in segments for key in segment}),
        sorted({key for segment in segments for block in segment["blocks"] for key in block}),
        [tensor.data_ptr() in addresses for tensor in held],
        live(segments),
        {segment["segment_type"] for segment in segments},
        {(segment["device"], tuple(segment["segment_pool_id"])) for segment in segments},
        settings,
    ]


@both()
def test_pending_frees_are_shown() -> list[Any]:
    """The block is freed, but its other stream may still use it: no allocation has looked for that since."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(1)
    block = empty(1 << 20)
    block.record_stream(side)
    del block
    return live(torch.cuda.memory_snapshot())


@both()
def test_snapshot_without_traces() -> list[Any]:
    record()
    held = empty(1000)
    snapshot = torch._C._cuda_memorySnapshot((0, 0, False))
    return [sorted(snapshot), snapshot["device_traces"], live(snapshot["segments"]), held.nbytes]


@both()
def test_dump_is_read_by_memory_viz(folder: pathlib.Path) -> list[Any]:
    record()
    held = [empty(size) for size in (1000, 5 << 20)]
    del held[1]
    path = folder / "dump.pickle"
    torch.cuda.memory._dump_snapshot(str(path))
    snapshot = pickle.loads(path.read_bytes())
    pages = [_memory_viz.trace_plot(snapshot), _memory_viz.segment_plot(snapshot)]
    # The flame graphs' script would be fetched from the network; its input is what is looked at.
    texts = [_memory_viz.trace(snapshot), _memory_viz.memory(snapshot, str), _memory_viz.segments(snapshot, str)]
    texts.append(_memory_viz.segsum(snapshot))
    assert "test_dump_is_read_by_memory_viz" in texts[1]
    assert all(len(page) > 1000 for page in pages)
    return [len(held), [bool(text) for text in texts], texts[0].count("alloc"), actions(snapshot["device_traces"][0])]


@both()
def test_user_metadata_is_in_the_history() -> list[Any]:
    out: list[Any] = [torch.cuda.memory._get_memory_metadata()]
    record()
    torch.cuda.memory._set_memory_metadata("step 1")
    held = [empty(1000)]
    out.append(torch.cuda.memory._get_memory_metadata())
    torch.cuda.memory._set_memory_metadata("")
    held.append(empty(2000))
    return [*out, [(entry["action"], entry.get("user_metadata")) for entry in of_blocks(trace())]]


@both()
def test_snapshots_are_in_the_history_of_the_next() -> list[Any]:
    record()
    held = empty(1000)
    return [actions(trace()), actions(trace()), held.nbytes]


@both()
def test_annotations() -> list[Any]:
    record(global_record_annotations=True)
    with torch.profiler.record_function("a region"):
        empty(1000)
    annotations = torch.cuda.memory._snapshot()["external_annotations"]
    return [(each["name"], each["stage"], each["device"], sorted(each)) for each in annotations]


@both(REPRIEVE_SIM_DEVICES="2")
def test_history_of_each_device() -> list[Any]:
    record()
    held = [empty(1000, "cuda:0"), empty(2000, "cuda:1")]
    snapshot = torch.cuda.memory._snapshot()
    return [[actions(entries) for entries in snapshot["device_traces"]], live(snapshot["segments"]), len(held)]


@ours()
def test_segments_in_the_history_add_up() -> None:
    record()
    held = [empty(30 << 20), empty(1000), empty(5 << 20)]
    del held[0]
    torch.cuda.empty_cache()
    mapped: dict[str, int] = {}
    for entry in trace():
        mapped[entry["action"]] = mapped.get(entry["action"], 0) + entry["size"]
    assert mapped["segment_map"] - mapped["segment_unmap"] == torch.cuda.memory_reserved()
