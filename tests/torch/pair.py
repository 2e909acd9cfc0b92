"""Runs a test's body in processes of their own: with torch's allocator, with reprieve's, or with both.

A process has one allocator and one set of simulated GPUs. Most bodies run in a fork of pytest, in which torch is
imported already and CUDA not yet used. What torch reads from the environment when it is imported, and what happens at
the interpreter's end, need a process started afresh.
"""

from __future__ import annotations

import functools
import importlib
import os
import pathlib
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

LONGEST_S = 60
SHOWN = 40  # differences of a pair that are listed
NATIVE, REPRIEVE = "torch's own allocator", "reprieve"

Body = Callable[..., Any]


@dataclass
class Run:
    """How a process ended, what it printed, and what its body returned."""

    status: int
    output: str
    found: Any = None


def _serve(body: Body, arguments: dict[str, Any], options: dict[str, Any] | None, answer: IO[bytes]) -> int:
    try:
        if options is not None:
            import reprieve

            reprieve.install(**options)
        answer.write(pickle.dumps(body(**arguments)))
        answer.flush()
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _wait(process: int) -> int:
    handle = os.pidfd_open(process)
    try:
        if not select.select([handle], [], [], LONGEST_S)[0]:
            os.kill(process, signal.SIGKILL)
    finally:
        os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _fork(serve: Callable[[], int], environment: dict[str, str], output: IO[str]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        os.environ.update(environment)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        status = serve()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return _wait(process)


def run(
    body: Body,
    arguments: dict[str, Any] | None = None,
    *,
    options: dict[str, Any] | None = None,
    fresh: bool = False,
    **environment: str,
) -> Run:
    """Runs the body in one process; `options` are those of reprieve.install(), None leaves torch's allocator."""
    given = arguments or {}
    with tempfile.TemporaryFile("w+") as output, tempfile.NamedTemporaryFile("w+b") as answer:
        if fresh:
            task = pickle.dumps((sys.path, body.__module__, body.__qualname__, given, options))
            command = [sys.executable, __file__, answer.name]
            done = subprocess.run(
                command, env=os.environ | environment, input=task, stdout=output, stderr=output, timeout=LONGEST_S
            )
            status = done.returncode
        else:
            status = _fork(lambda: _serve(body, given, options, answer), environment, output)
        output.seek(0)
        answer.seek(0)
        written = answer.read()
        return Run(status, output.read(), pickle.loads(written) if written else None)


def script(text: str, *, arguments: tuple[str, ...] = (), **environment: str) -> Run:
    """Runs a program's text in a new interpreter, to its very end. Its stdout is `found`, its stderr `output`."""
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    return Run(done.returncode, done.stderr, done.stdout)


def differences(native: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Where two results differ, one line each."""
    if isinstance(native, dict) and isinstance(ours, dict):
        for key in sorted({*native, *ours}, key=str):
            if key not in native or key not in ours:
                yield f"{path}[{key!r}]: only with {NATIVE if key in native else REPRIEVE}"
            else:
                yield from differences(native[key], ours[key], f"{path}[{key!r}]")
    elif isinstance(native, (list, tuple)) and type(native) is type(ours) and len(native) == len(ours):
        for index, (one, other) in enumerate(zip(native, ours)):
            yield from differences(one, other, f"{path}[{index}]")
    elif native != ours or type(native) is not type(ours):
        yield f"{path}: {NATIVE}: {native!r}; {REPRIEVE}: {ours!r}"


def found(run: Run, name: str) -> Any:
    """What the body returned; fails the test with the process' output where it did not come to that."""
    assert run.status == 0, f"with {name}, ended with {run.status} instead of 0:\n{run.output}"
    return run.found


def both(fresh: bool = False, **environment: str) -> Callable[[Body], Callable[..., None]]:
    """The body runs with either allocator, and what it returns must be the same."""

    def decorate(body: Body) -> Callable[..., None]:
        @functools.wraps(body)
        def test(**arguments: Any) -> None:
            native = found(run(body, arguments, fresh=fresh, **environment), NATIVE)
            ours = found(run(body, arguments, options={}, fresh=fresh, **environment), REPRIEVE)
            assert native is not None, "a body that runs with both allocators returns what is to be compared"
            assert not (lines := list(differences(native, ours))), "\n".join(lines[:SHOWN])

        test.body = body  # type: ignore[attr-defined]
        return test

    return decorate


def ours(
    fresh: bool = False, options: dict[str, Any] | None = None, **environment: str
) -> Callable[[Body], Callable[..., None]]:
    """The body runs with reprieve."""

    def decorate(body: Body) -> Callable[..., None]:
        @functools.wraps(body)
        def test(**arguments: Any) -> None:
            found(run(body, arguments, options=options or {}, fresh=fresh, **environment), REPRIEVE)

        test.body = body  # type: ignore[attr-defined]
        return test

    return decorate


def main() -> int:
    task = pickle.load(sys.stdin.buffer)
    sys.path[:] = task[0]
    module: Any = importlib.import_module(task[1])
    body = getattr(module, task[2])
    with pathlib.Path(sys.argv[1]).open("wb") as answer:
        return _serve(getattr(body, "body", body), task[3], task[4], answer)


if __name__ == "__main__":
    sys.exit(main())
