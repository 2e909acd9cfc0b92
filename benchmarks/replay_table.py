#!/usr/bin/env python3
"""Replays traces without a profiling run, prints a markdown table and checks it against the project's bounds.

Exit code 1 where a bound is missed, with a line for each. Needs the package `reprieve`; from a build tree:

  PYTHONPATH=python_shim REPRIEVE_LIBRARY_DIR=build/release/lib python3 benchmarks/replay_table.py [FILE…]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

LEAST_UTILIZATION = 0.97
LEAST_MEAN_UTILIZATION = 0.98
MOST_DRIVER_SHARE = 0.01
MOST_LIMIT_OVER_PEAK = 1.024
MOST_LIMIT_OVER_PEAK_OF = {"grpo": 1.027}

Row = dict[str, Any]


def mean_utilization(rows: list[Row]) -> float:
    """Over the traces that completed."""
    known = [row["utilization"] for row in rows if row["utilization"] is not None]
    return sum(known) / len(known) if known else 0.0


def missed_bounds(rows: list[Row]) -> list[str]:
    """One line for each bound that a trace, or all together, miss."""
    missed = []
    for row in rows:
        name = row["trace"]
        if not row["completed"] or row["utilization"] is None or row["min_limit_over_peak"] is None:
            missed.append(f"{name}: did not complete")
            continue
        if row["utilization"] < LEAST_UTILIZATION:
            missed.append(f"{name}: utilization {row['utilization']:.4f}, at least {LEAST_UTILIZATION}")
        share = row["driver_us"] / row["trace_duration_us"] if row["trace_duration_us"] else float("inf")
        if share > MOST_DRIVER_SHARE:
            missed.append(f"{name}: driver {share:.2%} of the run, at most {MOST_DRIVER_SHARE:.0%}")
        most = MOST_LIMIT_OVER_PEAK_OF.get(name, MOST_LIMIT_OVER_PEAK)
        if row["min_limit_over_peak"] > most:
            missed.append(f"{name}: smallest limit {row['min_limit_over_peak']:.4f} x peak, at most {most}")
    if mean_utilization(rows) < LEAST_MEAN_UTILIZATION:
        missed.append(f"mean utilization {mean_utilization(rows):.4f}, at least {LEAST_MEAN_UTILIZATION}")
    return missed


def table(rows: list[Row]) -> str:
    """The rows in markdown."""
    lines = [
        "| trace | events | peak GiB | utilization | min limit / peak | driver % of run | ns per event | second pass |",
        "|---|---|---|---|---|---|---|---|",
    ]

    def cell(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    for row in rows:
        share = row["driver_us"] / row["trace_duration_us"] * 100 if row["trace_duration_us"] else None
        cells = [
            row["trace"],
            f"{row['events']:,}",
            f"{row['peak_requested_bytes'] / 2**30:.2f}",
            cell(row["utilization"], ".4f"),
            cell(row["min_limit_over_peak"], ".4f"),
            cell(share, ".2f"),
            cell(row["ns_per_event"], ".1f"),
            cell(row["ns_per_event_second_pass"], ".1f"),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines.append(f"| mean | | | {mean_utilization(rows):.4f} | | | | |")
    return "\n".join(lines)


def default_traces() -> list[Path]:
    """The recorded ones beside the repository where they are, else the ones in it."""
    for folder in (ROOT.parent / "shared" / "traces", ROOT / "benchmarks" / "traces"):
        found = sorted(folder.glob("*.csv.gz"))
        if found:
            return found
    return []


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    files = arguments.files or default_traces()
    command = [sys.executable, "-m", "reprieve", "replay", "--policy", "reprieve", "--json", "--min-limit"]
    command += ["--repeat", str(arguments.repeat)]
    replay = subprocess.run([*command, *map(str, files)], stdout=subprocess.PIPE, text=True, check=False)
    if replay.returncode != 0:
        return replay.returncode
    rows = json.loads(replay.stdout)
    print(table(rows))
    missed = missed_bounds(rows)
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
