"""Runs a test's body in a process of its own: simulated GPUs, torch's allocator and its settings are one a process.

Most bodies run in a fork of pytest, in which torch is imported already and CUDA not yet used. What torch reads from the
environment when it is imported needs a process started afresh.
"""

from __future__ import annotations

import functools
import importlib
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from typing import Any, Callable

LONGEST_S = 300


def _child(body: Callable[..., object], arguments: dict[str, Any], environment: dict[str, str]) -> int:
    os.environ.update(environment)
    try:
        body(**arguments)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _forked(body: Callable[..., object], arguments: dict[str, Any], environment: dict[str, str], output: Any) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        status = _child(body, arguments, environment)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    handle = os.pidfd_open(process)
    try:
        if not select.select([handle], [], [], LONGEST_S)[0]:
            os.kill(process, signal.SIGKILL)
    finally:
        os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _started(body: Callable[..., object], arguments: dict[str, Any], environment: dict[str, str], output: Any) -> int:
    if arguments:
        raise ValueError("a body in a fresh process takes no fixtures")
    command = [sys.executable, __file__, body.__module__, body.__qualname__]
    paths = os.pathsep.join(sys.path)
    more = {"PYTHONPATH": paths, **environment}
    done = subprocess.run(command, env=os.environ | more, stdout=output, stderr=output, check=False, timeout=LONGEST_S)
    return done.returncode


def scenario(fresh: bool = False, fails: str = "", **environment: str) -> Callable[[Callable[..., object]], Any]:
    """`environment` is set in the process. `fails`: the body must end it, as the signal of that name does."""

    def decorate(body: Callable[..., object]) -> Callable[..., None]:
        @functools.wraps(body)
        def test(**arguments: Any) -> None:
            with tempfile.TemporaryFile("w+") as output:
                run = _started if fresh else _forked
                status = run(body, arguments, environment, output)
                output.seek(0)
                said = output.read()
            wanted = -getattr(signal, fails) if fails else 0
            assert status == wanted, f"ended with {status} instead of {wanted}:\n{said}"

        test.body = body  # type: ignore[attr-defined]
        return test

    return decorate


def main() -> int:
    module, name = sys.argv[1:]
    found: Any = importlib.import_module(module)
    return _child(getattr(found, name).body, {}, {})


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    sys.exit(main())
