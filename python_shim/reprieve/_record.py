"""`reprieve record`: a job run as it is, with torch's own allocation history switched on in each of its processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

SUFFIXES = (".pickle", ".pkl", ".pickle.gz", ".pkl.gz")
_RECORDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_recorder")
_NOT_FOUND, _NOT_EXECUTABLE, _SIGNALLED = 127, 126, 128  # as shells have it


class RecordError(Exception):
    """The recording cannot be made, or the job not be started."""

    def __init__(self, text: str, exit_code: int = 2) -> None:
        super().__init__(text)
        self.exit_code = exit_code


@dataclass
class Recorded:
    """How the job ended, what was written, and lines that its user should see."""

    exit_code: int
    files: list[Path]
    lines: list[str]


def run(command: Sequence[str], file: Path, entries: int, *, stacks: bool) -> Recorded:
    """Runs the job to its end. Raises RecordError where it could not be started."""
    suffix = next((end for end in sorted(SUFFIXES, key=len, reverse=True) if file.name.lower().endswith(end)), None)
    if suffix is None:
        raise RecordError(f"{file} is not accepted, accepted are names that end in {', '.join(SUFFIXES)}")
    folder = file.absolute().parent
    if file.is_dir() or not folder.is_dir():
        raise RecordError(f"{file} cannot be written: {'it is a folder' if file.is_dir() else f'no folder {folder}'}")
    try:
        # Beside the file, so that what is written there only has to be renamed, and can be found after a crash.
        parts = Path(tempfile.mkdtemp(prefix=f".{file.name}.", dir=folder))
    except OSError as error:
        raise RecordError(f"{file} cannot be written: {error.strerror or error}") from None
    try:
        code = _run_job(command, _environment(parts, suffix, entries, stacks=stacks))
        return _collect(parts, file, suffix, entries, code)
    finally:
        shutil.rmtree(parts, ignore_errors=True)


def _environment(parts: Path, suffix: str, entries: int, *, stacks: bool) -> dict[str, str]:
    before = os.environ.get("PYTHONPATH")
    return os.environ | {
        "PYTHONPATH": _RECORDER + (os.pathsep + before if before else ""),
        # Not REPRIEVE_…: the library, which the job may use, would wonder about options that it does not know.
        "_REPRIEVE_RECORD_FOLDER": str(parts),
        "_REPRIEVE_RECORD_ENTRIES": str(entries),
        "_REPRIEVE_RECORD_STACKS": "1" if stacks else "0",
        "_REPRIEVE_RECORD_SUFFIX": suffix,
    }


def _run_job(command: Sequence[str], environment: dict[str, str]) -> int:
    try:
        job = subprocess.Popen(command, env=environment)
    except FileNotFoundError:
        raise RecordError(f"{command[0]} cannot be run: it was not found", _NOT_FOUND) from None
    except OSError as error:
        raise RecordError(f"{command[0]} cannot be run: {error.strerror or error}", _NOT_EXECUTABLE) from None

    def pass_on(number: int, frame: FrameType | None) -> None:
        job.send_signal(number)

    # A terminal's Ctrl-C reaches the job by itself: what it does about it is for it to say.
    before = {signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        before[number] = signal.signal(number, pass_on)
    try:
        code = job.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else _SIGNALLED - code


def _notes(parts: Path, kind: str) -> dict[str, str]:
    """What processes noted of this kind: pid: text."""
    found = {}
    for path in sorted(parts.glob(f"{kind}-*")):
        match = re.fullmatch(rf"{kind}-(\d+)", path.name)
        if match:
            found[match[1]] = path.read_text(errors="replace")
    return found


def _collect(parts: Path, file: Path, suffix: str, entries: int, code: int) -> Recorded:
    files: list[Path] = []
    lines = [f"process {pid}: {text}" for kind in ("error", "warning") for pid, text in _notes(parts, kind).items()]
    ends = {pid: json.loads(text) for pid, text in _notes(parts, "end").items()}
    ooms = {pid: json.loads(text) for pid, text in _notes(parts, "oom").items()}
    stem = file.name[: -len(suffix)]
    ranks = [str(told["rank"]) for told in {**ooms, **ends}.values()]
    for pid, told in sorted({**ooms, **ends}.items(), key=lambda item: (len(item[0]), item[0])):
        if not any(told["entries"]) and not told["blocks"]:
            continue  # CUDA was initialized and no memory used
        who = ""
        if len(ranks) > 1:
            by_rank = told["rank"] is not None and ranks.count(str(told["rank"])) == 1
            who = f".rank{told['rank']}" if by_rank else f".pid{pid}"
        wrapped = max(told["entries"], default=0) >= entries
        for kind, of in (("end", ends), ("oom", ooms)):
            # The history at the end has all that the one at the first failure has, unless the ring has lost it.
            if pid not in of or (kind == "oom" and pid in ends and not wrapped):
                continue
            name = f"{stem}{who}{'.oom' if kind == 'oom' and pid in ends else ''}{suffix}"
            target = file.with_name(name)
            os.replace(parts / f"{kind}-{pid}{suffix}", target)
            files.append(target)
            if kind == "oom" and pid not in ends:
                lines.append(f"{target}: written when memory ran out, the process did not come to its end")
        if wrapped:
            lines.append(f"{files[-1]}: only the last {entries:,} entries were kept, --max-entries keeps more")
    lost = [pid for pid in _notes(parts, "cuda") if pid not in ends and pid not in ooms]
    if lost:
        lines.append(f"process {', '.join(lost)}: ended at once (killed, or crashed), nothing could be written")
    if not files and not lines:
        lines.append(_why_nothing(parts))
    return Recorded(code, files, lines)


def _why_nothing(parts: Path) -> str:
    if not _notes(parts, "torch"):
        return (
            "nothing recorded: no process of the job imported torch (or its Python ignores PYTHONPATH, as with -I, -E "
            "and -S)"
        )
    if not _notes(parts, "cuda"):
        return "nothing recorded: the job imported torch but did not initialize CUDA, is there a GPU?"
    return "nothing recorded: the job initialized CUDA but allocated no memory of it"
