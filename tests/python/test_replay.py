"""`reprieve replay` over the library itself, on the simulated device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

MIB = 1 << 20
REPLAY = ("replay", "--policy", "reprieve")
FIELDS: dict[str, tuple[type, ...]] = {
    "trace": (str,),
    "policy": (str,),
    "device": (str,),
    "events": (int,),
    "streams": (int,),
    "peak_requested_bytes": (int,),
    "peak_reserved_bytes": (int,),
    "utilization": (float,),
    "limit_bytes": (int, type(None)),
    "completed": (bool,),
    "failed_at_event": (int, type(None)),
    "ns_per_event": (float,),
    "ns_per_event_second_pass": (float,),
    "total_ns_per_event": (float,),
    "total_ns_per_event_second_pass": (float,),
    "driver_calls": (dict,),
    "driver_us": (float,),
    "teardown_driver_us": (float,),
    "alloc_retries": (int,),
    "trace_duration_us": (int,),
}
# Two blocks of 48 MiB live at once, on two streams.
SMALL = (
    "op,id,bytes,stream,time_us\n"
    f"a,0,{48 * MIB},0,10\na,1,{48 * MIB},7,20\nr,0,0,7,30\nf,0,,0,40\nf,1,,0,50\na,2,0,0,60\nf,2,,0,70\n"
)


def rows_of(ended) -> list[dict[str, Any]]:
    assert ended.code == 0, ended.err
    assert ended.err == ""
    rows: list[dict[str, Any]] = json.loads(ended.out)
    return rows


def test_json_has_the_fields_of_the_documentation(reprieve, trace_file, root: Path) -> None:
    (row,) = rows_of(reprieve(*REPLAY, "--json", trace_file(SMALL, "small.csv.gz")))
    assert list(row) == list(FIELDS)
    for name, types in FIELDS.items():
        assert isinstance(row[name], types), name
    assert row["trace"] == "small" and row["policy"] == "reprieve" and row["device"] == "sim"
    assert row["events"] == 7 and row["streams"] == 2
    assert row["peak_requested_bytes"] == 96 * MIB
    assert row["peak_reserved_bytes"] >= 96 * MIB
    assert row["utilization"] == row["peak_requested_bytes"] / row["peak_reserved_bytes"]
    assert row["completed"] is True and row["failed_at_event"] is None and row["limit_bytes"] is None
    assert row["trace_duration_us"] == 60
    assert row["driver_calls"]["create"] > 0 and row["driver_calls"]["release"] == 0
    assert all(isinstance(count, int) for count in row["driver_calls"].values())
    assert row["driver_us"] > 0 and row["teardown_driver_us"] > 0
    documented = (root / "docs" / "replay.md").read_text()
    assert [name for name in [*row, "min_limit_bytes", "min_limit_over_peak"] if f"`{name}`" not in documented] == []


def test_min_limit(reprieve, trace_file) -> None:
    (row,) = rows_of(reprieve(*REPLAY, "--json", "--min-limit", "--repeat", 1, trace_file(SMALL)))
    assert set(row) == set(FIELDS) | {"min_limit_bytes", "min_limit_over_peak"}
    assert row["completed"] is True
    assert 96 * MIB <= row["min_limit_bytes"] <= 1.3 * 96 * MIB and row["min_limit_bytes"] % (2 * MIB) == 0
    assert row["min_limit_over_peak"] == row["min_limit_bytes"] / row["peak_requested_bytes"]
    path = trace_file(SMALL)
    (under,) = rows_of(reprieve(*REPLAY, "--json", "--repeat", 1, "--limit", row["min_limit_bytes"], path))
    assert under["completed"] is True and under["peak_reserved_bytes"] <= row["min_limit_bytes"]
    (below,) = rows_of(reprieve(*REPLAY, "--json", "--repeat", 1, "--limit", row["min_limit_bytes"] - 2 * MIB, path))
    assert below["completed"] is False


def test_running_out_of_memory_is_a_result(reprieve, trace_file) -> None:
    (row,) = rows_of(reprieve(*REPLAY, "--json", "--limit", "64MiB", trace_file(SMALL)))
    assert row["completed"] is False and row["failed_at_event"] == 1
    assert row["limit_bytes"] == 64 * MIB and row["peak_reserved_bytes"] <= 64 * MIB
    assert row["utilization"] is None and row["ns_per_event"] is None
    # A card that is too small: the same, and no limit on it can help.
    (row,) = rows_of(reprieve(*REPLAY, "--json", "--min-limit", "--capacity", "64MiB", trace_file(SMALL)))
    assert row["completed"] is False and row["min_limit_bytes"] is None and row["min_limit_over_peak"] is None


def test_the_environment_decides_nothing(reprieve, trace_file) -> None:
    (row,) = rows_of(reprieve(*REPLAY, "--json", trace_file(SMALL), REPRIEVE_LIMIT="64MiB", REPRIEVE_DEVICE="cuda"))
    assert row["completed"] is True and row["device"] == "sim"


def test_the_table_is_whole_and_in_order(reprieve, trace_file) -> None:
    ended = reprieve(
        *(*REPLAY, "--repeat", 1, "--limit", "64MiB"),
        *(trace_file(SMALL, "b.csv"), trace_file(SMALL, "a.csv")),
    )
    assert ended.code == 0 and ended.err == ""
    lines = [line.split() for line in ended.out.splitlines() if "out of memory" in line]
    assert [line[:5] for line in lines] == [["b", "reprieve", "7", "2", "0.09"], ["a", "reprieve", "7", "2", "0.09"]]
    assert all(" ".join(line).endswith("out of memory at event 1") for line in lines)
    assert "limit" in ended.out and "0.06" in ended.out
    narrow = reprieve(
        *("replay", "--repeat", 1, "--min-limit", trace_file(SMALL, "a-trace-with-a-long-name.csv")), COLUMNS="40"
    )
    assert "a-trace-with-a-long-name" in narrow.out and "completed" in narrow.out and "…" not in narrow.out


@pytest.mark.parametrize("name", ["llama-lora-cot", "resnet-multires", "multistream-fsdp"])
def test_the_traces_of_the_repository_complete(reprieve, root: Path, name: str) -> None:
    (row,) = rows_of(reprieve(*REPLAY, "--json", "--repeat", 1, root / "benchmarks" / "traces" / f"{name}.csv.gz"))
    assert row["trace"] == name
    assert row["completed"] is True
    assert row["streams"] == (4 if name == "multistream-fsdp" else 1)
    # Each stream has its own free memory: four streams' peaks together are 1.11 x the peak of all.
    assert row["utilization"] >= (0.8 if name == "multistream-fsdp" else 0.97)
    assert row["driver_us"] <= 0.01 * row["trace_duration_us"]


def test_what_a_replay_costs_is_the_same_on_every_run(reprieve, root: Path) -> None:
    path = root / "benchmarks" / "traces" / "multistream-fsdp.csv.gz"
    first, second = (rows_of(reprieve(*REPLAY, "--json", "--repeat", 1, path))[0] for _ in range(2))
    for field in ("peak_reserved_bytes", "driver_calls", "driver_us", "teardown_driver_us"):
        assert first[field] == second[field], field


def test_options_and_version(reprieve) -> None:
    version = reprieve("version")
    assert version.code == 0 and version.out.count(".") == 2
    people = reprieve("options")
    assert people.code == 0 and "REPRIEVE_LIMIT" in people.out
    markdown = reprieve("options", "--markdown")
    assert markdown.code == 0 and markdown.out.startswith("# Options\n")
    rows = [line for line in markdown.out.splitlines() if line.startswith("| ")]
    assert len({row.replace("\\|", "").count("|") for row in rows}) == 1, "as many cells in each row"
    assert "| `limit` | `REPRIEVE_LIMIT` |" in markdown.out
