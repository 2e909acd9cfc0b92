"""The command line: reprieve replay, reprieve options, reprieve version."""

# No `from __future__ import annotations`, and Optional instead of `| None`: the oldest typer that is supported reads
# the annotations of commands as they are, and knows no others.
import json
import os
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from reprieve import _native, _report, _sizes, _trace_file

_BAD_INPUT = 2
_FAILED = 1

app = typer.Typer(
    help="reprieve: a caching allocator for CUDA memory that recovers from out-of-memory.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Device(str, Enum):
    """Where a trace is replayed."""

    sim = "sim"
    cuda = "cuda"


class CommandError(Exception):
    """Ends the command with one line on stderr."""

    def __init__(self, text: str, exit_code: int = _BAD_INPUT) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def _size(option: str, text: str | None) -> int:
    if text is None:
        return 0
    try:
        return _sizes.parse(text)
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from None


def _trace(path: Path) -> _native.Trace:
    try:
        return _native.Trace(_trace_file.read(path))
    except (_trace_file.TraceFileError, _native.RefusedError) as error:
        where = f"{path}:{error.line}" if error.line else str(path)
        raise CommandError(f"{where}: {error}") from None


@app.command()
def replay(
    files: Annotated[list[Path], typer.Argument(help="Traces: CSV, gzipped or not (docs/replay.md).", metavar="FILE")],
    limit: Annotated[
        Optional[str], typer.Option(metavar="SIZE", help="The most that may be reserved, such as 24GiB.")
    ] = None,
    min_limit: Annotated[
        bool, typer.Option("--min-limit", help="Also find the smallest limit under which each trace completes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of the table.")] = False,
    device: Annotated[Device, typer.Option(help="The simulated device, or GPU 0.")] = Device.sim,
    capacity: Annotated[
        Optional[str], typer.Option(metavar="SIZE", help="The simulated device's memory, such as 141GiB.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Fresh starts; the median is told.")] = 3,
) -> None:
    """Replay recorded runs through the allocator and measure it."""
    if limit is not None and min_limit:
        raise CommandError("--limit and --min-limit exclude each other, accepted is one of them")
    if capacity is not None and device is not Device.sim:
        raise CommandError("--capacity is the simulated device's, accepted with --device sim only")
    config = _native.Config(device.value, _size("--limit", limit), _size("--capacity", capacity), repeat)
    # All are read before the first is replayed: a bad one among them leaves nothing half done.
    traces = [(path, _trace(path)) for path in files]
    rows: list[dict[str, Any]] = []
    for path, trace in traces:
        try:
            result = trace.replay(config, find_min_limit=min_limit)
        except _native.RefusedError as error:
            raise CommandError(str(error)) from None
        except _native.FailedError as error:
            raise CommandError(f"{path}: {error}", _FAILED) from None
        rows.append(_report.record(_trace_file.name(path), trace, config, result, find_min_limit=min_limit))
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        _report.print_table(rows, find_min_limit=min_limit)


@app.command()
def options(
    markdown: Annotated[bool, typer.Option("--markdown", help="As docs/options.md has them.")] = False,
) -> None:
    """List the library's options."""
    from reprieve import _options

    _options.show(markdown=markdown)


@app.command()
def version() -> None:
    """Print the library's version."""
    print(_native.version())


def run(arguments: list[str]) -> int:
    """Runs one command and returns its exit code: 0, 1 (failed) or 2 (bad input)."""
    try:
        code = app(arguments, prog_name="reprieve", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except typer.Exit as error:
        return error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # The reader has gone; what is still buffered must not fail a second time when Python closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except CommandError as error:
        text, code = str(error), error.exit_code
    except (_native.FailedError, FileNotFoundError) as error:
        text, code = str(error), _FAILED
    except Exception as error:
        # A wrong use of the command line. The class lives in click or inside typer, depending on typer's version, so it
        # is known by the method that gives its message.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        text, code = f"{str(message()).rstrip('.')}, see reprieve --help", _BAD_INPUT
    print("reprieve: " + " ".join(text.split()), file=sys.stderr)
    return code


def main() -> None:
    """The `reprieve` command."""
    sys.exit(run(sys.argv[1:]))
