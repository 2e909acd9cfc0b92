"""Files for a replay: traces in CSV and torch's memory snapshots, gzipped or not, told apart by what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reprieve import _native, _snapshot, _snapshot_events, _trace_file
from reprieve._frames import Frames
from reprieve._progress import Bar
from reprieve._snapshot_events import DeviceTrace

_CONF_KEYS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


class InputError(Exception):
    """A file that cannot be replayed; the text begins with its name, and the place in it where there is one."""


@dataclass
class SnapshotPart:
    """What a replay of one device of a snapshot knows beside the trace."""

    device: DeviceTrace
    frames: Frames
    alloc_conf: str | None  # what the job had in PYTORCH_CUDA_ALLOC_CONF, as far as the models take it
    refused_alloc_conf: str | None  # the same where they do not
    expandable: bool | None

    def notes(self) -> list[str]:
        """What a reader of the results should know, a line each."""
        lines = self.device.notes()
        if self.refused_alloc_conf:
            lines.append(f"the job's PYTORCH_CUDA_ALLOC_CONF is not followed: {self.refused_alloc_conf}")
        return lines


@dataclass
class Input:
    """One trace to be replayed, of which a file may have several."""

    name: str
    path: Path
    trace: _native.Trace
    snapshot: SnapshotPart | None


def read(path: Path, bar: Bar) -> list[Input]:
    """Reads and checks a file. Raises InputError."""
    try:
        data = _trace_file.read(path)
        if not _trace_file.is_snapshot(path, data):
            return [Input(_trace_file.name(path), path, _native.Trace(data), None)]
    except (_trace_file.TraceFileError, _native.RefusedError) as error:
        raise InputError(f"{path}:{error.line}: {error}" if error.line else f"{path}: {error}") from None
    try:
        total = len(data)
        snapshot = _snapshot.read(data, lambda done: bar.show(f"reading {path.name}", done, total))
        del data
        devices = _snapshot_events.device_traces(snapshot)
        return list(_inputs(path, snapshot, devices))
    except _snapshot.SnapshotError as error:
        raise InputError(f"{path}: {error}") from None


def _inputs(path: Path, snapshot: _snapshot.Snapshot, devices: list[DeviceTrace]) -> Iterator[Input]:
    settings, frames = snapshot.settings, snapshot.frames
    conf = next((str(settings[key]) for key in _CONF_KEYS if settings.get(key)), None)
    refused = None
    if conf is not None:
        try:
            _native.alloc_conf_expandable(conf)
        except _native.RefusedError as error:
            conf, refused = None, str(error)
    expandable = settings.get("expandable_segments")
    # The columns are no longer needed, and are as large as what comes now.
    snapshot.entries, snapshot.blocks = _snapshot.Columns(), _snapshot.Blocks()
    for device in devices:
        try:
            trace = _native.Trace.from_events(device.events)
        except _native.RefusedError as error:
            where = path if error.event is None else f"{path}: {device.place(error.event)}"
            raise InputError(f"{where}: {error}") from None
        name = _trace_file.name(path)
        part = SnapshotPart(device, frames, conf, refused, expandable if isinstance(expandable, bool) else None)
        yield Input(name if len(devices) == 1 else f"{name} GPU {device.device}", path, trace, part)
