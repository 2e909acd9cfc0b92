"""A snapshot that cannot be replayed gets one line on stderr that says where and what, and exit code 2."""

from __future__ import annotations

import gzip
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
from snapshots import BASE, MIB, START_US, block, dumped, entry, freed, segment, snapshot

from reprieve import _inputs
from reprieve._progress import Bar

WHOLE = dumped(snapshot([], [entry("alloc", 512 * i, 512, i) for i in range(2000)]))


def refusal(path: Path) -> str:
    with pytest.raises(_inputs.InputError) as refused:
        _inputs.read(path, Bar())
    text = str(refused.value)
    assert text.startswith(f"{path}") and "\n" not in text
    return text.removeprefix(f"{path}: ")


def refused(tmp_path: Path, value: Any) -> str:
    path = tmp_path / "some.pickle"
    path.write_bytes(value if isinstance(value, bytes) else dumped(value))
    return refusal(path)


NUMBERS = "accepted are whole numbers from 0 to 9223372036854775807"
ONE = [entry("alloc", 0, 512, 5)]


@pytest.mark.parametrize(
    ("trace", "text"),
    [
        (
            [*ONE, entry("fly", 0, 512)],
            "device_traces[0][1]: action 'fly' is unknown, accepted are alloc, free_requested, ",
        ),
        ([*ONE, entry(7, 0, 512)], "device_traces[0][1]: action 7 is unknown, accepted are alloc, "),  # type: ignore[arg-type]
        ([*ONE, entry("alloc", 0, -5)], f"device_traces[0][1]: size -5 is out of range, {NUMBERS}"),
        ([*ONE, entry("alloc", 0, 1 << 70)], f"device_traces[0][1]: size {1 << 70} is out of range, {NUMBERS}"),
        ([*ONE, entry("alloc", 0, "x")], "device_traces[0][1]: size 'x' is not a whole number"),  # type: ignore[arg-type]
        ([entry("alloc", 0, 5) | {"time_us": float("nan")}], "device_traces[0][0]: time_us nan is not a whole number"),
        ([entry("alloc", 0, 5) | {"time_us": -1}], f"device_traces[0][0]: time_us -1 is out of range, {NUMBERS}"),
        (
            [entry("alloc", 0, 512, 5000), entry("alloc", 512, 512, 100)],
            f"device_traces[0][1]: time_us {START_US + 100} is 4900 us before the entry above, accepted are 1000",
        ),
        (
            [*ONE, dict(ONE[0])],
            f"device_traces[0][1]: 0x{BASE:x} is allocated while it is live, it must be freed first",
        ),
        (
            [*ONE, *freed(0, 512, 6), *freed(0, 512, 7)],
            f"device_traces[0][4]: 0x{BASE:x} is freed again, it must be allocated in between",
        ),
        ([*ONE, 5], "a trace entry is in a list with others, or in two lists"),
        ([entry("alloc", 0, 5, pool_id=(1, 2, 3))], "pool id (1, 2, 3), accepted are pairs of whole numbers"),
        ([entry("snapshot", 0, 5)], "the snapshot has no block and no allocation"),
    ],
)
def test_a_trace(tmp_path: Path, trace: list[Any], text: str) -> None:
    assert refused(tmp_path, snapshot([], trace)).startswith(text)


@pytest.mark.parametrize(
    ("segments", "text"),
    [
        (
            [segment(0, MIB, [block(512, "lost")])],
            "block 0 of segment 0: state 'lost' is unknown, accepted are inactive, ",
        ),
        ([segment(0, MIB, [block(-1)])], f"block 0 of segment 0: size -1 is not accepted, {NUMBERS}"),
        ([segment(0, 100, [block(512)])], "segment 0: its blocks have 512 bytes, its total_size is 100"),
        ([segment(0, MIB, [block(512)], device="x")], f"segment 0: device 'x' is not accepted, {NUMBERS}"),
        ([segment(0, MIB, 5)], "segment 0: blocks is not a list of blocks"),  # type: ignore[arg-type]
        ([segment(0, MIB, [])], "the snapshot has no block and no allocation"),
    ],
)
def test_segments(tmp_path: Path, segments: list[Any], text: str) -> None:
    assert refused(tmp_path, snapshot(segments)).startswith(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "the pickle is no memory snapshot, accepted are"),
        (5, "the pickle is no memory snapshot"),
        ({"weights": [1.5] * 9}, "the pickle is no memory snapshot"),
        ([], "the snapshot has no block and no allocation"),
        ({"segments": 5}, "segments is not a list of what a snapshot has there"),
        ({"segments": [], "device_traces": 5}, "device_traces is not a list with one list a device"),
        ({"segments": [], "device_traces": [5]}, "device_traces is not a list with one list a device"),
        (b"", "the pickle is cut short, or was damaged"),
        (WHOLE[:-100], "the pickle is cut short"),
        (WHOLE + b"more", "4 bytes follow the pickle's end"),
    ],
)
def test_a_pickle_that_is_no_snapshot(tmp_path: Path, value: Any, text: str) -> None:
    assert refused(tmp_path, value).startswith(text)


def test_the_same_trace_twice(tmp_path: Path) -> None:
    trace = [entry("alloc", 0, 512)]
    assert refused(tmp_path, snapshot([], trace, trace)).startswith("device_traces has the same list twice")


def test_a_million_streams(tmp_path: Path) -> None:
    path = tmp_path / "streams.csv"
    path.write_text("".join(f"a,{i},512,{i},0\n" for i in range(1_000_000)))
    assert refusal(path) == f"{path}:65536: stream '65535' is one too many, accepted are 65535 different ones"
    trace = [entry("alloc", 512 * i, 512, 0, i) for i in range(70_000)]
    text = refused(tmp_path, snapshot([], trace))
    assert text == "device_traces[0][65535]: stream '65535' is one too many, accepted are 65535 different ones"


def test_gzip_that_is_cut_short_and_gzip_that_explodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "some.pickle.gz"
    path.write_bytes(gzip.compress(WHOLE)[:-20])
    assert "the file is cut short here, a gzip file must be whole" in refusal(path)
    monkeypatch.setattr("reprieve._trace_file._LEAST_MOST", 1 << 20)
    path.write_bytes(gzip.compress(bytes(16 << 20)))
    assert refusal(path).startswith("the gzip data is over 300 times as large unpacked, which no trace is")


def test_a_zip_archive(tmp_path: Path) -> None:
    path = tmp_path / "some.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", b"")
    assert refusal(path).startswith("is a zip archive (torch.save's, perhaps)")


def test_files_that_are_none(tmp_path: Path) -> None:
    assert refusal(tmp_path / "missing.pickle") == "cannot be read: No such file or directory"
    assert refusal(tmp_path) == "cannot be read: Is a directory"
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    assert refusal(empty).endswith("the trace is empty, it must have at least one event op,id,bytes,stream,time_us")


class Evil:
    def __reduce__(self) -> Any:
        return print, ("executed",)


def test_the_command_s_line_and_exit_code(reprieve: Any, tmp_path: Path) -> None:
    path = tmp_path / "evil.pickle"
    path.write_bytes(pickle.dumps({"segments": [Evil()]}))
    ended = reprieve("replay", path)
    assert ended.code == 2 and ended.out == ""
    assert ended.err.startswith(f"reprieve: {path}: the pickle asks for builtins.print at byte ")
    assert ended.err.count("\n") == 1 and ended.err.endswith("nothing of it was executed\n")
