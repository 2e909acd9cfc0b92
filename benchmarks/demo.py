#!/usr/bin/env python3
"""What `./run demo` shows: one recorded training run under two limits and three allocators, and the picture of it.

PYTHONPATH=python_shim REPRIEVE_LIBRARY_DIR=build/release/lib python3 benchmarks/demo.py PICTURE
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TRACE = "packed-large-vocab"
RECORDED = ROOT / "benchmarks" / "results" / "2026-12-01-h200-policies.csv"
# Below what native needs, and below what expandable segments need.
LIMITS = ("38.5GiB", "37.2GiB")
GIB = 2.0**30

Row = dict[str, Any]


def replay(*arguments: str) -> dict[str, Row]:
    """One `reprieve replay` of the trace, by policy."""
    path = ROOT / "benchmarks" / "traces" / f"{TRACE}.csv.gz"
    command = [sys.executable, "-m", "reprieve", "replay", "--json", "--repeat", "1", *arguments, str(path)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if ended.returncode:
        sys.exit(ended.returncode)  # it has said why
    return {row["policy"]: row for row in json.loads(ended.stdout)}


def recorded(peak: int) -> dict[str, tuple[str, str]]:
    """What was measured on the H200, in GiB: reserved without a limit, and the smallest limit."""
    lines = [line for line in RECORDED.read_text().splitlines() if not line.startswith("#")]
    found = {}
    for row in csv.DictReader(lines):
        if row["trace"] == TRACE:
            smallest = row["smallest_limit_over_peak"]
            reserved = f"{peak / float(row['utilization']) / GIB:.1f}"
            found[row["policy"]] = reserved, f"{peak * float(smallest) / GIB:.2f}" if smallest else "not tried"
    return found


def outcome(row: Row) -> str:
    if row["completed"]:
        return "completed"
    return f"out of memory, {row['failed_at_event'] / row['events']:.0%} done"


def show(free: dict[str, Row], limited: list[dict[str, Row]]) -> None:
    """The table."""
    from reprieve import _tables

    headers = [
        "allocator",
        "reserved GiB,\nno limit",
        "the same\non the H200",
        "smallest limit\nGiB",
        "the same\non the H200",
    ]
    headers += [f"under {limit}" for limit in LIMITS]
    measured = recorded(next(iter(free.values()))["peak_requested_bytes"])
    rows = []
    for policy, row in free.items():
        reserved, smallest = measured[policy]
        cells = [
            policy,
            f"{row['peak_reserved_bytes'] / GIB:.1f}",
            reserved,
            f"{row['min_limit_bytes'] / GIB:.2f}",
            smallest,
        ]
        rows.append([*cells, *(outcome(of[policy]) for of in limited)])
    _tables.show(headers, [rows], left=("allocator", *headers[-2:]))


def main() -> int:
    picture = sys.argv[1]
    free = replay("--min-limit")
    limited = [replay("--limit", LIMITS[0]), replay("--limit", LIMITS[1], "--plot", picture)]
    first = next(iter(free.values()))
    print(f"{first['events']:,} events; {first['peak_requested_bytes'] / GIB:.2f} GiB requested at the peak.")
    show(free, limited)
    print(f"The picture of the run under {LIMITS[1]}: {picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
