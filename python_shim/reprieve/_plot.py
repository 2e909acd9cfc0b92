"""The picture of a replay: requested and reserved memory over time, under each policy, and where memory ran out."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprieve import _sizes
from reprieve._native import Sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from reprieve._report import Run

FORMATS = (".png", ".svg", ".pdf")
MOST_PANELS = 6
# Okabe and Ito's colours, told apart by those who see few; the lines differ in their dashes and width as well.
_STYLES: dict[str, tuple[str, str | tuple[int, tuple[float, ...]], float]] = {
    "native": ("#D55E00", (0, (5, 1.6)), 1.9),
    "expandable": ("#009E73", (0, (1.4, 1.2)), 2.1),
    "reprieve": ("#0072B2", "solid", 2.3),
}
_REQUESTED, _REQUESTED_LINE, _LIMIT = "#DADDE2", "#8A9099", "#000000"
_WIDTH_IN, _HEIGHT_IN, _DPI = 9.0, 4.5, 200  # 1800 pixels: a README shows it at half of that
_TEXT = 12.5
_GIB = 2.0**30
_LINES_APART, _ROW = 0.065, 0.075  # of the height: between labels, and for a failure's
_OVER = {"reprieve": 3.0, "expandable": 3.1, "native": 3.2}  # dashes over what is drawn through


class PlotError(Exception):
    """No picture can be made: `exit_code` says whether it was asked for wrongly."""

    def __init__(self, text: str, exit_code: int = 2) -> None:
        super().__init__(text)
        self.exit_code = exit_code


@dataclass
class Curve:
    """One policy's run."""

    policy: str
    samples: Sequence[Sample]
    completed: bool
    peak_reserved: int


@dataclass
class Panel:
    """One trace under one limit. Sizes in bytes; limit 0: none."""

    title: str
    limit: int
    peak_requested: int
    curves: list[Curve]


def check(path: Path, traces: int) -> None:
    """Raises PlotError where a picture of so many traces cannot be written to this file."""
    if path.suffix.lower() not in FORMATS:
        raise PlotError(f"{path} is not accepted, accepted are names that end in {', '.join(FORMATS)}")
    if not path.absolute().parent.is_dir():
        raise PlotError(f"{path} cannot be written: there is no folder {path.absolute().parent}")
    try:
        is_folder = path.is_dir()
    except OSError as error:
        raise PlotError(f"{path} cannot be written: {error.strerror or error}") from None
    if is_folder:
        raise PlotError(f"{path} cannot be written: it is a folder")
    if traces > MOST_PANELS:
        raise PlotError(f"{traces} traces, a picture has room for {MOST_PANELS}")
    if importlib.util.find_spec("matplotlib") is None:
        raise PlotError("matplotlib is not installed: pip install 'reprieve[plot]', or pip install matplotlib", 1)


def panels(runs: Sequence[Run]) -> list[Panel]:
    """What the picture shows of these runs: a panel for each trace."""
    made: dict[str, Panel] = {}
    for source, config, result in runs:
        panel = made.setdefault(
            source.name, Panel(source.name, config.limit_bytes, source.trace.peak_requested_bytes, [])
        )
        panel.curves.append(Curve(config.policy, result.samples, result.completed, result.peak_reserved_bytes))
    return list(made.values())


def save(path: Path, shown: Sequence[Panel]) -> None:
    """Draws the panels into a file. Raises PlotError where it cannot be written."""
    try:
        figure(shown).savefig(path, dpi=_DPI)
    except OSError as error:
        raise PlotError(f"{path} cannot be written: {error.strerror or error}") from None


def figure(shown: Sequence[Panel]) -> Figure:
    """The picture."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"font.size": _TEXT, "font.family": "DejaVu Sans", "svg.hashsalt": "reprieve"}):
        made = Figure(figsize=(_WIDTH_IN, _HEIGHT_IN * len(shown)), facecolor="white", layout="constrained")
        axes = made.subplots(len(shown), 1, squeeze=False)[:, 0]
        for place, panel in zip(axes, shown):
            _draw(place, panel)
    return made


def _draw(axes: Axes, panel: Panel) -> None:
    longest = max(panel.curves, key=lambda curve: curve.samples[-1].event if curve.samples else 0)
    seconds = longest.samples[-1].time_us > 0
    unit, per = _time_unit(longest.samples[-1].time_us) if seconds else ("event", 1.0)
    title = f"{panel.title} under a limit of {_sizes.gib(panel.limit)} GiB" if panel.limit else panel.title
    axes.set_title(title, loc="left", fontsize=_TEXT + 1.5, fontweight="bold")
    axes.set_xlabel(unit)
    axes.set_ylabel("GiB")

    def times(samples: Sequence[Sample]) -> list[float]:
        return [(sample.time_us if seconds else sample.event) / per for sample in samples]

    end = max(times(longest.samples)[-1], 1e-6)
    requested = [sample.requested / _GIB for sample in longest.samples]
    at = times(longest.samples)
    axes.fill_between(at, requested, step="post", color=_REQUESTED, linewidth=0, label="requested (area)")
    axes.plot(at, requested, drawstyle="steps-post", color=_REQUESTED_LINE, linewidth=0.7, label="requested")
    tops = [panel.peak_requested, panel.limit, *(curve.peak_reserved for curve in panel.curves)]
    # What failed may be beyond any memory; the picture is of what was had.
    failures = sum(not curve.completed for curve in panel.curves)
    top = max(tops[1:]) * 1.04 / (1 - _ROW * failures) / _GIB
    axes.set_ylim(0, top)
    axes.set_xlim(0, end)
    labels: list[tuple[float, str, str]] = []
    for curve in panel.curves:
        _draw_curve(axes, curve, times(curve.samples), labels)
    if panel.limit:
        axes.axhline(panel.limit / _GIB, color=_LIMIT, linewidth=1.1, linestyle="solid", label="limit", zorder=1.5)
        labels.append((panel.limit / _GIB, f"limit {_sizes.gib(panel.limit)}", _LIMIT))
    last = [sample.requested for sample in longest.samples]
    labels.append((min(max(last), panel.peak_requested) / _GIB * 0.5, "requested", "#5B616A"))
    _label_ends(axes, labels, top)
    _mark_failures(axes, panel, {curve.policy: times(curve.samples) for curve in panel.curves}, end, top)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color="#ECEEF1", linewidth=0.8)
    axes.set_axisbelow(True)


def _draw_curve(axes: Axes, curve: Curve, at: list[float], labels: list[tuple[float, str, str]]) -> None:
    color, dashes, width = _STYLES[curve.policy]
    reserved = [sample.reserved / _GIB for sample in curve.samples]
    axes.plot(
        at,
        reserved,
        drawstyle="steps-post",
        color=color,
        linestyle=dashes,
        linewidth=width,
        label=curve.policy,
        zorder=_OVER[curve.policy],
    )
    if curve.completed:
        labels.append((reserved[-1], f"{curve.policy} {_sizes.gib(curve.peak_reserved)}", color))


def _label_ends(axes: Axes, labels: list[tuple[float, str, str]], top: float) -> None:
    """Names each line at its right end, apart from one another."""
    height = -1.0
    for value, text, color in sorted(labels):
        height = max(value / top, height + _LINES_APART)
        axes.annotate(
            text,
            xy=(1, height),
            xycoords="axes fraction",
            xytext=(7, 0),
            textcoords="offset points",
            color=color,
            va="center",
            fontsize=_TEXT,
            annotation_clip=False,
        )


def _mark_failures(axes: Axes, panel: Panel, times: dict[str, list[float]], end: float, top: float) -> None:
    """Above everything else, a row for each, the last one the highest; a line leads from it down to the mark."""
    failed = [curve for curve in panel.curves if not curve.completed and curve.samples]
    failed.sort(key=lambda curve: -curve.samples[-1].event)
    for row, curve in enumerate(failed):
        color = _STYLES[curve.policy][0]
        at, reserved = times[curve.policy][-1], curve.samples[-1].reserved / _GIB
        height = top * (1 - _ROW * (row + 0.5))
        axes.plot([at, at], [reserved, height], color=color, linewidth=1.2, zorder=4, label="_leader")
        mark: dict[str, Any] = {"marker": "X", "markersize": 12, "markeredgecolor": "white", "linestyle": "none"}
        axes.plot([at], [reserved], color=color, zorder=6, label=f"{curve.policy}: out of memory", **mark)
        left = at > end * 0.6
        axes.annotate(
            f"{curve.policy}: out of memory",
            xy=(at, height),
            xytext=(-6 if left else 6, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            color=color,
            fontweight="bold",
            fontsize=_TEXT,
            bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"},
            zorder=5,
        )


def _time_unit(longest_us: int) -> tuple[str, float]:
    if longest_us >= 2 * 3600 * 1e6:
        return "hours", 3600e6
    if longest_us >= 600 * 1e6:
        return "minutes", 60e6
    return ("seconds", 1e6) if longest_us >= 1e5 else ("milliseconds", 1e3)
