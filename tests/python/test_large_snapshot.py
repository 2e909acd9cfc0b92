"""A snapshot of 200 MB: how much memory it takes to replay, and the bar that shows how far it is."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from snapshots import large

# The process's own peak, without what Python and the libraries take before anything is read.
_MEASURED = """
import resource, sys
from reprieve.cli import run
run(["version"])
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
code = run(["replay", "--json", "--policy", "native", sys.argv[1]])
print(code, peak() - before, file=sys.stderr)
"""


def write(size: int, frames: int, path: Path) -> None:
    """Writes a history of about so many bytes; a small one is made and measured first."""
    some = 30_000
    path.write_bytes(large(round(some * size / len(large(some, frames, 3000))), frames, 3000))


# Without stacks the file is the smallest for what is in it, so that is the harder case, and as hard when it is small.
@pytest.mark.parametrize(("size", "frames"), [(40_000_000, 0), (200_000_000, 50)])
def test_memory_stays_under_six_times_the_file(tmp_path: Path, size: int, frames: int) -> None:
    path = tmp_path / "large.pickle"
    # In a process of its own: what making the file takes is not to be seen in the other one's peak.
    made = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; from pathlib import Path; "
         f"import test_large_snapshot as t; t.write({size}, {frames}, Path({str(path)!r}))"],
        check=False,
    )  # fmt: skip
    assert made.returncode == 0
    assert path.stat().st_size > 0.9 * size
    size = path.stat().st_size
    ended = subprocess.run([sys.executable, "-c", _MEASURED, path], capture_output=True, text=True, check=False)
    code, taken = map(int, ended.stderr.split()[-2:])
    assert code == 0, ended.stderr
    print(f"{size / 1e6:.0f} MB: {taken / size:.2f} x the file")
    assert taken < 6 * size


def run_on_a_terminal(command: list[str], environment: dict[str, str]) -> str:
    """What a command writes to a terminal that is its stderr."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=os.environ | environment) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end was closed
                break
            if not part:
                break
            seen += part
    os.close(ours)
    assert process.returncode == 0, seen
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())


def test_the_bar_is_for_what_takes_long(tmp_path: Path) -> None:
    path = tmp_path / "large.pickle"
    path.write_bytes(large(60_000, 0, 1))
    program = "import sys; from reprieve import _progress; _progress.AFTER_S = float(sys.argv[1]); "
    program += "from reprieve.cli import run; sys.exit(run(sys.argv[2:]))"
    command = [sys.executable, "-c", program]
    replay = ["replay", "--policy", "native", str(path)]
    shown = run_on_a_terminal([*command, "0", *replay], {"TERM": "xterm"})
    assert "reading large.pickle" in shown and "%" in shown
    assert run_on_a_terminal([*command, "3600", *replay], {"TERM": "xterm"}) == ""
    ended = subprocess.run([*command, "0", *replay], capture_output=True, text=True, check=True)
    assert ended.stderr == "", "nothing where stderr is no terminal"
