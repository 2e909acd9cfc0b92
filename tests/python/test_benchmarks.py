"""The made-up trace and the check of the bounds."""

from __future__ import annotations

import gzip
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def replay_table(root: Path) -> ModuleType:
    return load(root / "benchmarks" / "replay_table.py")


def test_the_multistream_trace_is_what_its_script_makes(root: Path, tmp_path: Path) -> None:
    made = [tmp_path / "a.csv.gz", tmp_path / "b.csv.gz"]
    for path in made:
        subprocess.run([sys.executable, root / "benchmarks" / "make_multistream_trace.py", path], check=True)
    assert made[0].read_bytes() == made[1].read_bytes()
    kept = (root / "benchmarks" / "traces" / "multistream-fsdp.csv.gz").read_bytes()
    # The text: how it is compressed is zlib's, whose versions differ.
    assert gzip.decompress(kept) == gzip.decompress(made[0].read_bytes())
    assert kept[3:8] == bytes(5), "no name and no time in the header"


def test_the_multistream_trace_has_what_the_recorded_ones_lack(root: Path) -> None:
    text = gzip.decompress((root / "benchmarks" / "traces" / "multistream-fsdp.csv.gz").read_bytes()).decode()
    owner: dict[str, str] = {}
    recorded, freed_elsewhere = set(), set()
    for line in text.splitlines()[1:]:
        op, block, _, stream, _ = line.split(",")
        if op == "a":
            owner[block] = stream
        elif stream != owner[block]:
            (recorded if op == "r" else freed_elsewhere).add((owner[block], stream))
    assert set(owner.values()) == {"0", "1", "2", "3"}
    assert recorded == {("1", "0"), ("0", "2"), ("0", "3")}
    assert freed_elsewhere == {("1", "0"), ("2", "0"), ("3", "0")}


GOOD: dict[str, Any] = {
    "trace": "one",
    "events": 1000,
    "completed": True,
    "peak_requested_bytes": 1 << 30,
    "utilization": 0.985,
    "min_limit_over_peak": 1.02,
    "driver_us": 90.0,
    "trace_duration_us": 10_000,
    "ns_per_event": 50.0,
    "ns_per_event_second_pass": 40.0,
}


def test_bounds_that_hold(replay_table: ModuleType) -> None:
    assert replay_table.missed_bounds([GOOD, GOOD | {"trace": "grpo", "min_limit_over_peak": 1.0265}]) == []
    assert "| one | 1,000 | 1.00 | 0.9850 | 1.0200 | 0.90 | 50.0 | 40.0 |" in replay_table.table([GOOD])


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"utilization": 0.9699}, "one: utilization 0.9699, at least 0.97"),
        ({"driver_us": 101.0}, "one: driver 1.01% of the run, at most 1%"),
        ({"min_limit_over_peak": 1.0241}, "one: smallest limit 1.0241 x peak, at most 1.024"),
        ({"trace": "grpo", "min_limit_over_peak": 1.0271}, "grpo: smallest limit 1.0271 x peak, at most 1.027"),
        ({"completed": False, "utilization": None, "ns_per_event": None}, "one: did not complete"),
        ({"min_limit_over_peak": None}, "one: did not complete"),
    ],
)
def test_each_bound_can_be_missed(replay_table: ModuleType, change: dict[str, Any], line: str) -> None:
    rows = [GOOD | change, GOOD | {"utilization": 0.999}]
    assert replay_table.missed_bounds(rows) == [line]
    assert replay_table.table(rows).count("\n") == 4


def test_the_mean_is_bounded_too(replay_table: ModuleType) -> None:
    rows = [GOOD | {"utilization": 0.975}] * 2
    assert replay_table.missed_bounds(rows) == ["mean utilization 0.9750, at least 0.98"]
    assert replay_table.missed_bounds([]) == ["mean utilization 0.0000, at least 0.98"]


def test_a_missed_bound_is_the_commands_failure(
    replay_table: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], trace_file: Any
) -> None:
    # One block of 1 MiB in a smallest limit of 32 MiB: far over any bound.
    path = trace_file("a,0,1048576,0,0\nf,0,,0,1000000\n", "tiny.csv")
    monkeypatch.setattr(sys, "argv", ["replay_table.py", "--repeat", "1", str(path)])
    assert replay_table.main() == 1
    printed = capsys.readouterr()
    assert "| tiny | 2 | 0.00 |" in printed.out
    assert "missed: tiny: smallest limit 32.0000 x peak, at most 1.024\n" in printed.err
    monkeypatch.setattr(sys, "argv", ["replay_table.py", str(path.parent / "missing.csv")])
    assert replay_table.main() == 2
