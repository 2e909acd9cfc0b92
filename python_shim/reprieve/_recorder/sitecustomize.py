"""Runs in the processes of a job under `reprieve record`: has torch keep its own history, and write it at the end.

Python imports a module of this name at its start. It may be any Python from 3.8 on, and nothing of the package is
imported here. Whatever goes wrong is noted for the parent and never becomes the job's.
"""

from __future__ import annotations

import atexit
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
from typing import Any

_FOLDER = os.environ.get("_REPRIEVE_RECORD_FOLDER", "")
_ENTRIES = int(os.environ.get("_REPRIEVE_RECORD_ENTRIES", "1000000"))
_STACKS = os.environ.get("_REPRIEVE_RECORD_STACKS", "1") == "1"
_SUFFIX = os.environ.get("_REPRIEVE_RECORD_SUFFIX", ".pickle")


def _run_the_next_sitecustomize() -> None:
    """The one that this module hides, with its own name and whatever it raises."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = [folder for folder in sys.path if os.path.abspath(folder or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


class _Recording:
    """What is recorded in this process. A forked child that uses CUDA itself has a recording of its own."""

    def __init__(self) -> None:
        self.pid = -1  # of the process whose CUDA is recorded
        self.running_out_was_written = False
        self.ended = False

    def name(self, kind: str) -> str:
        return os.path.join(_FOLDER, f"{kind}-{os.getpid()}")

    def note(self, kind: str, text: str = "") -> None:
        try:
            with open(self.name(kind), "w") as file:
                file.write(text)
        except OSError:
            pass  # the parent sees that there is nothing

    def cuda_begins(self) -> None:
        """Called by torch when it has initialized CUDA, before the first allocation."""
        if self.pid == os.getpid():
            return
        torch: Any = sys.modules["torch"]
        try:
            self.switch_on(torch)
        except Exception as error:
            self.note("error", f"torch {torch.__version__} keeps no history here: {error}".splitlines()[0])
            return
        self.pid = os.getpid()
        self.ended = self.running_out_was_written = False
        self.note("cuda")
        self.write_when_told_to_end()
        try:
            torch._C._cuda_attach_out_of_memory_observer(self.ran_out)
        except Exception as error:
            self.note("warning", f"what is recorded is written at the end only: {error}".splitlines()[0])

    def switch_on(self, torch: Any) -> None:
        context = "alloc" if _STACKS else None
        try:
            torch.cuda.memory._record_memory_history("all", context=context, stacks="python", max_entries=_ENTRIES)
        except TypeError:  # torch 2.0
            torch.cuda.memory._record_memory_history(
                True, trace_alloc_max_entries=_ENTRIES, trace_alloc_record_context=_STACKS
            )

    def write_when_told_to_end(self) -> None:
        """torchrun ends the other ranks by SIGTERM. A job that has a handler of its own keeps it."""
        try:
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self.terminated)
        except ValueError:
            pass  # not the main thread

    def terminated(self, number: int, frame: Any) -> None:
        self.write_at_end()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def ran_out(self, *about: Any) -> None:
        """Out of memory: the job may not live to its end. Only the first time, since it may also go on for long."""
        if self.pid == os.getpid() and not self.running_out_was_written:
            self.running_out_was_written = True
            self.write("oom")

    def write_at_end(self) -> None:
        if self.pid != os.getpid() or self.ended:
            return
        self.ended = True
        self.write("end")

    def write(self, kind: str) -> None:
        torch: Any = sys.modules["torch"]
        try:
            snapshot = torch.cuda.memory._snapshot()
            path = self.name(kind) + _SUFFIX
            self.dump(snapshot, path + ".part")
            os.replace(path + ".part", path)
            told = {
                "rank": os.environ.get("RANK"),
                "entries": [len(trace) for trace in snapshot["device_traces"]],
                "blocks": sum(len(segment["blocks"]) for segment in snapshot["segments"]),
            }
            self.note(kind, json.dumps(told))
        except Exception as error:
            self.note("error", f"the history could not be written: {type(error).__name__}: {error}".splitlines()[0])

    def dump(self, snapshot: Any, path: str) -> None:
        import gzip
        import pickle

        if _SUFFIX.endswith(".gz"):
            with gzip.open(path, "wb", compresslevel=1) as packed:
                pickle.dump(snapshot, packed)
        else:
            with open(path, "wb") as file:
                pickle.dump(snapshot, file)


_recording = _Recording()


class _TorchFinder:
    """Finds torch as the others do, and has _torch_is_there called when its import is done."""

    def __init__(self) -> None:
        self._looking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch" or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking = False
        loader: Any = spec.loader if spec is not None else None
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                _torch_is_there(module)

            loader.exec_module = exec_module
        return spec


def _torch_is_there(torch: Any) -> None:
    _recording.note("torch", str(getattr(torch, "__version__", "")))
    try:
        atexit.register(_recording.write_at_end)  # after torch's own, so that it runs before those
        torch.cuda._lazy_call(_recording.cuda_begins)
    except Exception as error:
        _recording.note("error", f"this torch cannot be told to keep a history: {error}".splitlines()[0])


def _write_before_exit() -> None:
    """os._exit skips all that runs at an exit; multiprocessing's forked children end so."""
    leave = os._exit

    def _exit(status: int) -> Any:
        _recording.write_at_end()
        leave(status)

    os._exit = _exit


if _FOLDER:
    sys.meta_path.insert(0, _TorchFinder())
    _write_before_exit()
_run_the_next_sitecustomize()
