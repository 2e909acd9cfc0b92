"""The command line: reprieve replay, record, options, version."""

# No `from __future__ import annotations`, and Optional instead of `| None`: the oldest typer that is supported reads
# the annotations of commands as they are, and knows no others.
import dataclasses
import json
import os
import shlex
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Optional

import typer

from reprieve import _inputs, _native, _progress, _report, _sizes

_BAD_INPUT = 2
_FAILED = 1
_POLICIES = ("native", "expandable", "reprieve")
_SAMPLES = 1500  # intervals in a picture: more than it has pixels to tell apart

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


def _policies(given: Optional[list[str]], device: Device) -> list[str]:
    if given is None:
        return ["reprieve"] if device is Device.cuda else list(_POLICIES)
    named = [name.strip() for text in given for name in text.split(",")]
    for name in named:
        if name not in _POLICIES:
            raise CommandError(
                f"--policy: {name!r} is unknown, accepted are {', '.join(_POLICIES)}, and several of them"
            )
    if device is Device.cuda and set(named) != {"reprieve"}:
        raise CommandError("--device cuda replays with --policy reprieve only, native and expandable are models")
    return list(dict.fromkeys(named))


def _check_plot(path: Optional[Path], traces: int) -> None:
    if path is None:
        return
    from reprieve import _plot

    try:
        _plot.check(path, traces)
    except _plot.PlotError as error:
        raise CommandError(f"--plot: {error}", error.exit_code) from None


def _draw(path: Path, runs: list[_report.Run]) -> None:
    from reprieve import _plot

    try:
        _plot.save(path, _plot.panels(runs))
    except _plot.PlotError as error:
        raise CommandError(f"--plot: {error}", error.exit_code) from None


def _check_alloc_conf(text: Optional[str]) -> None:
    if text is not None:
        try:
            _native.alloc_conf_expandable(text)
        except _native.RefusedError as error:
            raise CommandError(f"--alloc-conf: {error}") from None


@app.command()
def replay(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Traces (CSV) and torch's memory snapshots, gzipped or not (docs/replay.md).", metavar="FILE"
        ),
    ],
    policy: Annotated[
        Optional[list[str]],
        typer.Option(metavar="NAME", help="native, expandable, reprieve; several with commas. Without it all three."),
    ] = None,
    limit: Annotated[
        Optional[str], typer.Option(metavar="SIZE", help="The most that may be reserved, such as 24GiB.")
    ] = None,
    min_limit: Annotated[
        bool, typer.Option("--min-limit", help="Also find the smallest limit under which each trace completes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of the table.")] = False,
    plot: Annotated[
        Optional[Path], typer.Option(metavar="FILE", help="Draw memory over time: .png, .svg or .pdf.")
    ] = None,
    device: Annotated[Device, typer.Option(help="The simulated device, or GPU 0.")] = Device.sim,
    alloc_conf: Annotated[
        Optional[str],
        typer.Option(
            metavar="TEXT", help="PYTORCH_CUDA_ALLOC_CONF for native and expandable; else the snapshot's own."
        ),
    ] = None,
    capacity: Annotated[
        Optional[str], typer.Option(metavar="SIZE", help="The simulated device's memory, such as 141GiB.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Fresh starts; the median is told.")] = 3,
) -> None:
    """Replay recorded runs through three allocators: would it have fitted?"""
    if limit is not None and min_limit:
        raise CommandError("--limit and --min-limit exclude each other, accepted is one of them")
    if capacity is not None and device is not Device.sim:
        raise CommandError("--capacity is the simulated device's, accepted with --device sim only")
    policies = _policies(policy, device)
    samples = 0 if plot is None else _SAMPLES
    base = _native.Config(device.value, _size("--limit", limit), _size("--capacity", capacity), repeat, samples=samples)
    _check_alloc_conf(alloc_conf)
    _check_plot(plot, len(files))
    with _progress.Bar() as bar:
        try:
            # All are read before the first is replayed: a bad one among them leaves nothing half done.
            sources = [source for path in files for source in _inputs.read(path, bar)]
            _check_plot(plot, len(sources))
            runs = _replayed(sources, policies, base, alloc_conf, bar, find_min_limit=min_limit)
        except _inputs.InputError as error:
            raise CommandError(str(error)) from None
    rows = [_report.record(source, config, result, find_min_limit=min_limit) for source, config, result in runs]
    if plot is not None:
        _draw(plot, runs)
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        _report.print_tables(rows, sources, find_min_limit=min_limit)
        if plot is not None:
            print(f"picture: {plot}")


def _replayed(
    sources: list[_inputs.Input],
    policies: list[str],
    base: _native.Config,
    alloc_conf: Optional[str],
    bar: _progress.Bar,
    *,
    find_min_limit: bool,
) -> list[_report.Run]:
    runs: list[_report.Run] = []
    for source in sources:
        own = source.snapshot.alloc_conf if source.snapshot is not None else None
        for name in policies:
            bar.show(f"replaying {source.name}, {name}", len(runs), len(sources) * len(policies))
            conf = None if name == "reprieve" else own if alloc_conf is None else alloc_conf
            config = dataclasses.replace(base, policy=name, alloc_conf=conf)
            try:
                runs.append((source, config, source.trace.replay(config, find_min_limit=find_min_limit)))
            except _native.RefusedError as error:
                raise CommandError(str(error)) from None
            except _native.FailedError as error:
                raise CommandError(f"{source.path}: {error}", _FAILED) from None
    return runs


@app.command(context_settings={"allow_interspersed_args": False})
def record(
    command: Annotated[list[str], typer.Argument(help="The job, such as python train.py.", metavar="-- COMMAND")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where to: .pickle or .pickle.gz.")
    ] = Path("reprieve-record.pickle"),
    max_entries: Annotated[
        int, typer.Option(min=1000, metavar="N", help="So many of the last entries are kept, for each GPU.")
    ] = 1_000_000,
    stacks: Annotated[bool, typer.Option(help="Record which code allocates.")] = True,
) -> None:
    """Run a job as it is and record its allocations, for replay."""
    from reprieve import _record

    try:
        recorded = _record.run(command, output, max_entries, stacks=stacks)
    except _record.RecordError as error:
        raise CommandError(str(error), error.exit_code) from None
    sys.stdout.flush()
    lines = list(recorded.lines)
    if recorded.files:
        files = " ".join(shlex.quote(str(path)) for path in recorded.files)
        lines.append(f"recorded: reprieve replay {files}")
    for line in lines:
        print(f"reprieve: {line}", file=sys.stderr)
    raise typer.Exit(recorded.exit_code)


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
