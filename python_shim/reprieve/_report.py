"""What a replay tells: the record of one trace, and the table of several."""

from __future__ import annotations

from typing import Any

from reprieve import _sizes
from reprieve._native import Config, Result, Trace

POLICY = "reprieve"


def record(name: str, trace: Trace, config: Config, result: Result, *, find_min_limit: bool) -> dict[str, Any]:
    """One trace's JSON object; docs/replay.md says what each field means. What was not measured is None."""
    done = result.completed
    peak = trace.peak_requested_bytes
    reserved = result.peak_reserved_bytes
    fields: dict[str, Any] = {
        "trace": name,
        "policy": POLICY,
        "device": config.device,
        "events": trace.events,
        "streams": trace.streams,
        "peak_requested_bytes": peak,
        "peak_reserved_bytes": reserved,
        "utilization": peak / reserved if done and reserved else None,
        "limit_bytes": config.limit_bytes or None,
    }
    if find_min_limit:
        limit = result.min_limit_bytes
        fields["min_limit_bytes"] = limit
        fields["min_limit_over_peak"] = limit / peak if limit is not None and peak else None
    return fields | {
        "completed": done,
        "failed_at_event": result.failed_at_event,
        "ns_per_event": result.ns_per_event if done else None,
        "ns_per_event_second_pass": result.ns_per_event_second_pass if done else None,
        "total_ns_per_event": result.total_ns_per_event if done else None,
        "total_ns_per_event_second_pass": result.total_ns_per_event_second_pass if done else None,
        "driver_calls": result.driver_calls,
        "driver_us": result.driver_us,
        "teardown_driver_us": result.teardown_driver_us,
        "trace_duration_us": trace.duration_us,
    }


def _share(part: float, whole: float | None, decimals: int) -> str:
    return f"{100 * part / whole:.{decimals}f}" if whole else "-"


def _ending(row: dict[str, Any]) -> str:
    return "completed" if row["completed"] else f"out of memory at event {row['failed_at_event']:,}"


def _cells(row: dict[str, Any], *, find_min_limit: bool) -> list[str]:
    cells = [
        row["trace"],
        f"{row['events']:,}",
        str(row["streams"]),
        _sizes.gib(row["peak_requested_bytes"]),
        _sizes.gib(row["peak_reserved_bytes"]),
        _share(row["utilization"], 1, 2) if row["utilization"] is not None else "-",
    ]
    if find_min_limit:
        limit, over = row["min_limit_bytes"], row["min_limit_over_peak"]
        cells += [_sizes.gib(limit) if limit is not None else "-", f"{over:.4f}" if over is not None else "-"]
    elif row["limit_bytes"] is not None:
        cells.append(_sizes.gib(row["limit_bytes"]))
    cells.append(_share(row["driver_us"], row["trace_duration_us"], 2))
    for column in ("ns_per_event", "ns_per_event_second_pass"):
        cells.append(f"{row[column]:.1f}" if row[column] is not None else "-")
    cells.append(_ending(row))
    return cells


def print_table(rows: list[dict[str, Any]], *, find_min_limit: bool) -> None:
    """Prints the records of one run as a table on stdout."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    headers = ["trace", "events", "streams", "peak\nGiB", "reserved\nGiB", "used\n%"]
    if find_min_limit:
        headers += ["min limit\nGiB", "min limit\n/ peak"]
    elif rows and rows[0]["limit_bytes"] is not None:
        headers.append("limit\nGiB")
    headers += ["driver\n% of run", "own ns\n/ event", "2nd pass\nns / event", "result"]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for header in headers:
        table.add_column(header, justify="left" if header in ("trace", "result") else "right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row, find_min_limit=find_min_limit))
    console = Console(highlight=False, markup=False)
    # Cut-off numbers are worth nothing: where the terminal is too narrow, it may fold the lines.
    console.width = max(console.width, console.measure(table, options=console.options.update(width=1000)).maximum)
    console.print(table)
