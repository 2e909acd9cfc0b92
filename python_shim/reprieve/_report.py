"""What a replay tells: the record of one trace under one policy, and the table of several."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from reprieve import _native, _peak, _sizes
from reprieve._inputs import Input
from reprieve._native import Config, Result

Run = tuple[Input, Config, Result]  # a trace, how it was replayed, and what came of it
_RECORD = dict[str, Any]
_MOST_GROUPS = 10


def record(source: Input, config: Config, result: Result, *, find_min_limit: bool) -> _RECORD:
    """The JSON object of one trace and policy; docs/replay.md says what each field means. None: not measured."""
    trace = source.trace
    done = result.completed
    peak = trace.peak_requested_bytes
    reserved = result.peak_reserved_bytes
    fields: _RECORD = {
        "trace": source.name,
        "policy": config.policy,
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
    fields |= {
        "completed": done,
        "failed_at_event": result.failed_at_event,
        "ns_per_event": result.ns_per_event if done else None,
        "ns_per_event_second_pass": result.ns_per_event_second_pass if done else None,
        "total_ns_per_event": result.total_ns_per_event if done else None,
        "total_ns_per_event_second_pass": result.total_ns_per_event_second_pass if done else None,
        "driver_calls": result.driver_calls,
        "driver_us": result.driver_us,
        "teardown_driver_us": result.teardown_driver_us,
        "alloc_retries": result.alloc_retries,
        "trace_duration_us": trace.duration_us,
    }
    if config.policy != "reprieve":
        fields["alloc_conf"] = config.alloc_conf
    if source.snapshot is not None:
        fields["snapshot"] = _snapshot_fields(source, result)
    return fields


def _snapshot_fields(source: Input, result: Result) -> _RECORD:
    assert source.snapshot is not None
    device, frames = source.snapshot.device, source.snapshot.frames
    failed = None
    if result.failed_at_event is not None:
        event = result.failed_at_event
        _, size, stream, time_us, _, op, _ = _native.EVENT.unpack_from(device.events, event * _native.EVENT.size)
        failed = {
            "bytes": size if op == _native.ALLOCATE else None,
            "stream": stream,
            "time_us": time_us,
            "frame": frames.text(device.frame[event]),
            "failed_in_the_job": any(request.event == event for request in device.failed_requests),
        }
    return {
        "cuda_device": device.device,
        "initial_blocks": device.initial_blocks,
        "initial_bytes": device.initial_bytes,
        "waiting_blocks": device.waiting_blocks,
        "empty_cache_calls": device.empty_cache_calls,
        "recorded_peak_reserved_bytes": device.recorded_peak_reserved_bytes,
        "recorded_expandable_segments": source.snapshot.expandable,
        "recorded_failures": [asdict(request) for request in device.failed_requests],
        "failed_request": failed,
        "peak": _peak.breakdown(device, frames),
    }


def _share(part: float, whole: float | None, decimals: int) -> str:
    return f"{100 * part / whole:.{decimals}f}" if whole else "-"


def ending(row: _RECORD) -> str:
    """How the run ended, for people."""
    if row["completed"]:
        return "completed"
    failed = (row.get("snapshot") or {}).get("failed_request")
    text = f"out of memory at event {row['failed_at_event']:,}"
    return f"{text} ({_sizes.short(failed['bytes'])}: {failed['frame']})" if failed and failed["bytes"] else text


def _cells(row: _RECORD, *, find_min_limit: bool, times: bool) -> list[str]:
    cells = [
        row["trace"],
        row["policy"],
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
    if times:
        for column in ("ns_per_event", "ns_per_event_second_pass"):
            cells.append(f"{row[column]:.1f}" if row[column] is not None else "-")
    cells.append(ending(row))
    return cells


def print_tables(rows: list[_RECORD], sources: list[Input], *, find_min_limit: bool) -> None:
    """Prints the records as a table on stdout, then what snapshots tell of their peaks."""
    from reprieve import _tables

    times = {row["policy"] for row in rows} == {"reprieve"}  # of the models there are none
    headers = ["trace", "policy", "events", "streams", "peak\nGiB", "reserved\nGiB", "used\n%"]
    if find_min_limit:
        headers += ["min limit\nGiB", "min limit\n/ peak"]
    elif rows and rows[0]["limit_bytes"] is not None:
        headers.append("limit\nGiB")
    headers.append("driver\n% of run")
    if times:
        headers += ["own ns\n/ event", "2nd pass\nns / event"]
    groups: dict[str, list[list[str]]] = {}
    for row in rows:
        groups.setdefault(row["trace"], []).append(_cells(row, find_min_limit=find_min_limit, times=times))
    apart = list(groups.values()) if len(rows) > len(groups) else [[cells for g in groups.values() for cells in g]]
    _tables.show([*headers, "result"], apart, left=("trace", "policy", "result"))
    for source in sources:
        if source.snapshot is not None:
            first = next(row for row in rows if row["trace"] == source.name)
            _print_snapshot(source, first["snapshot"])


def _print_snapshot(source: Input, told: _RECORD) -> None:
    from reprieve import _tables

    assert source.snapshot is not None
    lines = source.snapshot.notes()
    reserved = told["recorded_peak_reserved_bytes"]
    if reserved:
        kind = {True: ", with expandable segments", False: "", None: ""}[told["recorded_expandable_segments"]]
        lines.insert(0, f"torch's own allocator had {_sizes.short(reserved)} reserved at most{kind}")
    peak = told["peak"]
    print(f"{source.name}")
    for line in lines:
        print(f"  {line}")
    print(f"  the peak, {_sizes.short(peak['requested_bytes'])} requested at event {peak['event']:,}, by")
    ways = [("size", "by_size"), ("stream", "by_stream"), ("pool", "by_pool"), ("code that allocated", "by_frame")]
    for title, key in ways:
        groups = peak[key]
        if key in ("by_stream", "by_pool") and len(groups) == 1:
            continue  # one row that says everything says nothing
        if key == "by_frame" and groups and groups[0]["name"].startswith("no stack") and len(groups) == 1:
            continue
        shown, rest = groups[:_MOST_GROUPS], groups[_MOST_GROUPS:]
        if rest:
            left = {"bytes": sum(g["bytes"] for g in rest), "blocks": sum(g["blocks"] for g in rest)}
            shown = [*shown, {"name": f"{len(rest):,} others", **left}]
        rows = [
            [g["name"], _sizes.short(g["bytes"]), _share(g["bytes"], peak["requested_bytes"], 1), f"{g['blocks']:,}"]
            for g in shown
        ]
        _tables.show([title, "memory", "%", "blocks"], [rows], left=(title,))
