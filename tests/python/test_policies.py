"""`reprieve replay` with several policies, and of snapshots."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from snapshots import MIB, block, dumped, entry, segment, snapshot, stack

DATA = Path(__file__).parent / "data"
SMALL = f"a,0,{48 * MIB},0,10\na,1,{48 * MIB},7,20\nf,0,,0,40\nf,1,,0,50\n"
OTHERS = "accepted are native, expandable, reprieve"


def rows_of(ended: Any) -> list[dict[str, Any]]:
    assert ended.code == 0 and ended.err == "", ended.err
    rows: list[dict[str, Any]] = json.loads(ended.out)
    return rows


def test_all_three_without_a_word(reprieve: Any, trace_file: Callable[..., Path]) -> None:
    rows = rows_of(reprieve("replay", "--json", "--repeat", 1, trace_file(SMALL, "a.csv"), trace_file(SMALL, "b.csv")))
    assert [(row["trace"], row["policy"]) for row in rows] == [
        (name, policy) for name in "ab" for policy in ("native", "expandable", "reprieve")
    ]
    for row in rows:
        assert row["completed"] and row["peak_reserved_bytes"] >= 96 * MIB
        assert (row["ns_per_event"] is None) == (row["policy"] != "reprieve")
        assert ("alloc_conf" in row) == (row["policy"] != "reprieve")
    assert rows[0]["driver_calls"]["cudaMalloc"] == 2


def test_some_of_them(reprieve: Any, trace_file: Callable[..., Path]) -> None:
    path = trace_file(SMALL)
    ended = reprieve("replay", "--json", "--policy", "reprieve,native", "--policy", "native", path)
    assert [row["policy"] for row in rows_of(ended)] == ["reprieve", "native"]
    table = reprieve("replay", "--policy", "native,expandable", "--min-limit", path)
    assert "native" in table.out and "expandable" in table.out and "ns / event" not in table.out


def test_torch_s_options(reprieve: Any, trace_file: Callable[..., Path]) -> None:
    path = trace_file("a,0,3145728,0,0\n")
    arguments = ("replay", "--json", "--policy", "native", path)
    (plain,) = rows_of(reprieve(*arguments))
    (rounded,) = rows_of(reprieve(*arguments, "--alloc-conf", "roundup_power2_divisions:1,max_split_size_mb:64"))
    assert plain["alloc_conf"] is None and rounded["alloc_conf"] == "roundup_power2_divisions:1,max_split_size_mb:64"
    (environment,) = rows_of(reprieve(*arguments, PYTORCH_CUDA_ALLOC_CONF="nonsense:1"))
    assert environment["peak_reserved_bytes"] == plain["peak_reserved_bytes"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--policy", "fast"), f"--policy: 'fast' is unknown, {OTHERS}"),
        (("--policy", "native,"), f"--policy: '' is unknown, {OTHERS}"),
        (("--device", "cuda", "--policy", "native"), "--device cuda replays with --policy reprieve only"),
        (("--alloc-conf", "max_split_size_mb:x"), "--alloc-conf: "),
        (("--plot", "x.bmp"), "--plot: x.bmp is not accepted, accepted are names that end in .png, .svg, .pdf"),
        (("--plot", "/no/such/x.png"), "--plot: /no/such/x.png cannot be written: there is no folder /no/such"),
    ],
)
def test_wrong_options(reprieve: Any, trace_file: Callable[..., Path], arguments: tuple[str, ...], line: str) -> None:
    ended = reprieve("replay", trace_file(SMALL), *arguments)
    assert ended.code == 2 and ended.out == "" and ended.err.count("\n") == 1
    assert ended.err.startswith(f"reprieve: {line}")


@pytest.fixture
def oom(tmp_path: Path) -> Path:
    """A job that ran out of memory: 40 MiB live, 80 MiB more asked."""
    trace = [
        entry("segment_alloc", 0, 40 * MIB, 0),
        entry("alloc", 0, 40 * MIB, 1, frames=stack(("/home/me/model.py", 8, "forward"))),
        entry("oom", 10 * MIB, 80 * MIB, 2, frames=stack(("/home/me/model.py", 9, "forward"))),
    ]
    conf = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}
    path = tmp_path / "oom.pickle"
    path.write_bytes(dumped(snapshot([segment(0, 40 * MIB, [block(40 * MIB)])], trace, **conf)))
    return path


def test_a_snapshot_s_json(reprieve: Any, oom: Path, root: Path) -> None:
    rows = rows_of(reprieve("replay", "--json", "--repeat", 1, "--limit", "64MiB", oom))
    assert [row["alloc_conf"] for row in rows[:2]] == ["max_split_size_mb:64"] * 2
    for row in rows:
        assert row["trace"] == "oom" and not row["completed"] and row["failed_at_event"] == 1
        told = row["snapshot"]
        assert told["recorded_peak_reserved_bytes"] == 40 * MIB and told["cuda_device"] == 0
        failure = {"event": 1, "bytes": 80 * MIB, "device_free_bytes": 10 * MIB, "reserved_bytes": 40 * MIB}
        assert told["recorded_failures"] == [failure]
        assert told["failed_request"] == {
            "bytes": 80 * MIB,
            "stream": 0,
            "time_us": 2,
            "frame": "home/me/model.py:9 forward",
            "failed_in_the_job": True,
        }
        assert told["peak"]["requested_bytes"] == 120 * MIB
    documented = (root / "docs" / "replay.md").read_text()
    names = [*rows[0], *rows[0]["snapshot"], *rows[0]["snapshot"]["peak"], *rows[0]["snapshot"]["failed_request"]]
    assert [name for name in names if f"`{name}`" not in documented] == []


def test_a_snapshot_s_tables(reprieve: Any, oom: Path) -> None:
    ended = reprieve("replay", "--repeat", 1, "--limit", "64MiB", oom)
    assert ended.code == 0 and ended.err == ""
    assert ended.out.count("out of memory at event 1 (80 MiB: home/me/model.py:9 forward)") == 3
    assert f"40 MiB reserved by torch (--limit {50 * MIB} is that room)" in ended.out
    assert "torch's own allocator had 40 MiB reserved at most" in ended.out
    rows = [line.split() for line in ended.out.splitlines() if line.lstrip().startswith("home/me/model.py:")]
    assert [row[0] for row in rows] == ["home/me/model.py:9", "home/me/model.py:8"]


def test_each_device_is_a_trace(reprieve: Any) -> None:
    rows = rows_of(reprieve("replay", "--json", "--policy", "native", DATA / "torch-2.11-rich.pickle.gz"))
    assert [row["trace"] for row in rows] == ["torch-2.11-rich GPU 0", "torch-2.11-rich GPU 1"]
    assert [row["snapshot"]["cuda_device"] for row in rows] == [0, 1]


@pytest.mark.parametrize(("name", "policy"), [("wrapped", "native"), ("expandable", "expandable")])
def test_the_model_reserves_what_torch_did(reprieve: Any, name: str, policy: str) -> None:
    (row,) = rows_of(reprieve("replay", "--json", "--policy", policy, DATA / f"torch-2.11-{name}.pickle.gz"))
    recorded = row["snapshot"]["recorded_peak_reserved_bytes"]
    assert abs(row["peak_reserved_bytes"] - recorded) <= 0.02 * recorded
