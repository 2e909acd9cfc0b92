"""`reprieve record`: what it does to a job, with a double of torch that has as much of it as the recorder uses."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TORCH = '''
"""A double: torch.cuda with its queue of calls, and a history of the allocations that a test makes."""
import pickle, sys, types
__version__ = "2.11.0"
cuda, memory = types.ModuleType("torch.cuda"), types.ModuleType("torch.cuda.memory")
_C = types.SimpleNamespace()
_queue, _trace, _blocks, _observers = [], [], [], []
_most = None
def _record(enabled="all", context="all", stacks="all", max_entries=sys.maxsize):
    global _most
    _most = max_entries
    print("history", enabled, context, stacks, max_entries, file=sys.stderr)
def init():
    while _queue:
        _queue.pop(0)()
def alloc(size):
    init()
    entry = {"action": "alloc", "addr": 4096 * len(_blocks), "size": size, "stream": 0, "time_us": len(_trace)}
    _blocks.append({"size": 4096, "requested_size": size, "state": "active_allocated"})
    if _most is not None:
        _trace.append(entry)
        del _trace[:-_most]
def fail(size):
    _trace.append({"action": "oom", "device_free": 0, "size": size, "stream": 0, "time_us": len(_trace)})
    for observer in _observers:
        observer(0, size, 0, 0)
    raise MemoryError
def _snapshot():
    segment = {"device": 0, "address": 0, "total_size": 1 << 40, "stream": 0, "blocks": list(_blocks)}
    return {"segments": [segment], "device_traces": [list(_trace)]}
cuda._lazy_call = _queue.append
memory._record_memory_history, memory._snapshot = _record, _snapshot
_C._cuda_attach_out_of_memory_observer = _observers.append
cuda.memory = memory
sys.modules["torch.cuda"] = cuda
'''


@pytest.fixture
def job(tmp_path: Path, reprieve: Callable[..., Any]) -> Callable[..., Any]:
    """Records a Python program: (how the command ended, the files beside it by name)."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "torch.py").write_text(TORCH)
    out = tmp_path / "out"
    out.mkdir()

    def run(program: str, *options: object, python: tuple[str, ...] = (), **environment: str) -> Any:
        path = os.pathsep.join([str(modules), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
        command = ["record", "-o", out / "run.pickle", *options, "--", sys.executable, *python, "-c", program]
        ended = reprieve(*command, PYTHONPATH=path, **environment)
        return ended, {file.name: file for file in out.iterdir()}

    return run


def sizes(file: Path) -> list[int]:
    (trace,) = pickle.loads(file.read_bytes())["device_traces"]
    return [entry["size"] for entry in trace]


def test_a_job_is_recorded_from_its_first_allocation(job: Callable[..., Any], reprieve: Callable[..., Any]) -> None:
    ended, files = job("import torch, sys; torch.alloc(700); torch.alloc(900); print('its own'); sys.exit(5)")
    assert ended.code == 5 and ended.out == "its own\n"
    assert ended.err.splitlines()[0] == "history all alloc python 1000000"
    assert ended.err.splitlines()[1:] == [f"reprieve: recorded: reprieve replay {files['run.pickle']}"]
    assert list(files) == ["run.pickle"] and sizes(files["run.pickle"]) == [700, 900]
    replayed = reprieve("replay", "--json", "--policy", "native", files["run.pickle"])
    assert json.loads(replayed.out)[0]["peak_requested_bytes"] == 1600


def test_gzip_and_no_stacks(tmp_path: Path, job: Callable[..., Any]) -> None:
    ended, files = job("import torch; torch.alloc(5)", "-o", tmp_path / "out" / "x.pkl.gz", "--no-stacks")
    assert ended.code == 0 and "history all None python" in ended.err
    assert files["x.pkl.gz"].read_bytes()[:2] == b"\x1f\x8b"


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("import torch, os; torch.alloc(5); os._exit(4)", 4),
        ("import torch, os, signal; torch.alloc(5); os.kill(os.getpid(), signal.SIGTERM)", 128 + signal.SIGTERM),
        ("import torch; torch.alloc(5); raise ValueError", 1),
        ("import torch\ntorch.alloc(5)\ntry: torch.fail(9)\nexcept MemoryError: torch.alloc(6)", 0),
    ],
)
def test_each_way_to_end(job: Callable[..., Any], program: str, code: int) -> None:
    ended, files = job(program)
    assert ended.code == code and list(files) == ["run.pickle"]
    assert sizes(files["run.pickle"])[0] == 5


def test_killed_after_it_ran_out_of_memory(job: Callable[..., Any]) -> None:
    program = (
        "import torch, os, signal\ntorch.alloc(5)\ntry: torch.fail(9)\nexcept MemoryError: os.kill(os.getpid(), 9)"
    )
    ended, files = job(program)
    assert ended.code == 128 + signal.SIGKILL and sizes(files["run.pickle"]) == [5, 9]
    assert f"{files['run.pickle']}: written when memory ran out, the process did not come to its end\n" in ended.err


def test_killed_before(job: Callable[..., Any]) -> None:
    ended, files = job("import torch, os; torch.alloc(5); os.kill(os.getpid(), 9)")
    assert ended.code == 137 and files == {}
    assert "ended at once (killed, or crashed), nothing could be written\n" in ended.err


def test_a_ring_that_is_too_small(job: Callable[..., Any]) -> None:
    program = "import torch\nfor i in range(1500): torch.alloc(i)\ntry: torch.fail(7)\nexcept MemoryError: pass\n"
    ended, files = job(program + "for i in range(1200): torch.alloc(1)", "--max-entries", 1000)
    assert ended.code == 0 and sorted(files) == ["run.oom.pickle", "run.pickle"]
    assert "only the last 1,000 entries were kept, --max-entries keeps more\n" in ended.err


def test_ranks_and_other_processes(job: Callable[..., Any]) -> None:
    child = "import torch; torch.alloc(3)"
    program = "import subprocess, sys, os\n" + "".join(
        f"subprocess.run([sys.executable, '-c', {child!r}], env=os.environ | {{'RANK': '{rank}'}})\n" for rank in (0, 1)
    )
    ended, files = job(program)
    assert ended.code == 0 and sorted(files) == ["run.rank0.pickle", "run.rank1.pickle"]
    assert " ".join(str(files[name]) for name in sorted(files)) in ended.err


def test_a_forked_child_has_a_recording_of_its_own(job: Callable[..., Any]) -> None:
    program = "import torch, os\nif os.fork() == 0: torch.alloc(3); os._exit(0)\nos.wait()"
    _, files = job(program)
    assert [sizes(file) for file in files.values()] == [[3]]
    program = "import torch, os\ntorch.alloc(2)\nif os.fork() == 0: os._exit(0)\nos.wait()\ntorch.alloc(4)"
    _, files = job(program)
    assert [sizes(file) for file in files.values()] == [[2, 4]], "nothing is written for a child that used no CUDA"


@pytest.mark.parametrize(
    ("program", "python", "line"),
    [
        ("print(1)", (), "nothing recorded: no process of the job imported torch"),
        ("import torch; torch.alloc(3)", ("-I",), "nothing recorded: no process of the job imported torch"),
        ("import torch", (), "nothing recorded: the job imported torch but did not initialize CUDA, is there a GPU?"),
        ("import torch; torch.init()", (), "nothing recorded: the job initialized CUDA but allocated no memory of it"),
    ],
)
def test_nothing_to_record(job: Callable[..., Any], program: str, python: tuple[str, ...], line: str) -> None:
    ended, files = job(program, python=python)
    assert files == {} and line in ended.err.splitlines()[-1]


def test_a_torch_that_keeps_no_history(job: Callable[..., Any]) -> None:
    program = "import torch\ndef no(*a, **k): raise RuntimeError('not supported')\n"
    ended, files = job(program + "torch.cuda.memory._record_memory_history = no\ntorch.alloc(3); print('ran')")
    assert ended.code == 0 and ended.out == "ran\n" and files == {}
    assert "torch 2.11.0 keeps no history here: not supported\n" in ended.err


def test_the_job_s_own_sitecustomize_still_runs(job: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "modules" / "sitecustomize.py").write_text("import builtins; builtins.mark = __name__\n")
    ended, _ = job("import torch; torch.alloc(3); print(mark)")
    assert ended.out == "sitecustomize\n" and "recorded" in ended.err


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (("--", "no-such-program"), 127, "no-such-program cannot be run: it was not found"),
        (("--", "/"), 126, "/ cannot be run: Permission denied"),
        (("-o", "x.csv", "--", "true"), 2, "x.csv is not accepted, accepted are names that end in .pickle, .pkl"),
        (("-o", "/no/x.pickle", "--", "true"), 2, "/no/x.pickle cannot be written: no folder /no"),
        ((), 2, "Missing argument"),
        (("--max-entries", "5", "--", "true"), 2, "Invalid value for '--max-entries'"),
    ],
)
def test_what_cannot_be_started(
    reprieve: Callable[..., Any], tmp_path: Path, arguments: tuple[str, ...], code: int, line: str
) -> None:
    output = () if "-o" in arguments else ("-o", tmp_path / "run.pickle")
    ended = reprieve("record", *output, *arguments)
    assert ended.code == code and ended.out == "" and ended.err.count("\n") == 1
    assert ended.err.startswith(f"reprieve: {line}")
    assert list(tmp_path.iterdir()) == []


def test_signals_go_to_the_job(tmp_path: Path) -> None:
    program = "import signal, sys; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(9))\n"
    program += "print('up', flush=True); signal.pause()"
    command = [sys.executable, "-m", "reprieve", "record", "-o", str(tmp_path / "x.pickle"), "--"]
    with subprocess.Popen([*command, sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdout is not None and recorder.stdout.readline() == "up\n"
        recorder.send_signal(signal.SIGUSR1)
    assert recorder.returncode == 9
