"""The picture, by its data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reprieve import _plot
from reprieve._native import Sample

pytest.importorskip("matplotlib", reason="matplotlib is not installed here")

GIB = 1 << 30
STEPS = [Sample(0, 0, GIB, 2 * GIB), Sample(5, 500_000, 3 * GIB, 4 * GIB), Sample(9, 2_000_000, GIB, 4 * GIB)]


def panel(**change: Any) -> _plot.Panel:
    native = _plot.Curve("native", STEPS[:2], False, 4 * GIB)
    reprieve = _plot.Curve("reprieve", STEPS, True, 4 * GIB)
    given: dict[str, Any] = {"title": "run", "limit": 5 * GIB, "peak_requested": 3 * GIB, "curves": [native, reprieve]}
    return _plot.Panel(**(given | change))


def lines_of(axes: Any) -> dict[str, tuple[list[float], list[float]]]:
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}


def texts_of(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_lines_limit_and_failure() -> None:
    (axes,) = _plot.figure([panel()]).axes
    lines = lines_of(axes)
    assert lines["requested"] == ([0, 0.5, 2], [1, 3, 1])
    assert lines["reprieve"] == ([0, 0.5, 2], [2, 4, 4])
    assert lines["native"] == ([0, 0.5], [2, 4])
    assert lines["limit"][1] == [5, 5]
    assert lines["native: out of memory"] == ([0.5], [4])
    assert texts_of(axes) == ["requested", "reprieve 4.00", "limit 5.00", "native: out of memory"]
    assert axes.get_xlabel() == "seconds" and axes.get_ylabel() == "GiB"
    assert axes.get_title(loc="left") == "run under a limit of 5.00 GiB"
    assert all(
        line.get_drawstyle() == "steps-post" for line in axes.lines if line.get_label() in ("native", "reprieve")
    )


def test_labels_keep_their_distance() -> None:
    curves = [_plot.Curve(policy, STEPS, True, 4 * GIB) for policy in ("native", "expandable", "reprieve")]
    (axes,) = _plot.figure([panel(curves=curves, limit=0)]).axes
    assert "limit" not in lines_of(axes) and axes.get_title(loc="left") == "run"
    heights = sorted(text.xy[1] for text in axes.texts)
    assert all(b - a >= 0.06 for a, b in zip(heights, heights[1:]))
    assert texts_of(axes)[1:] == ["expandable 4.00", "native 4.00", "reprieve 4.00"]


def test_policies_differ_in_more_than_colour() -> None:
    dashes = [str(style[1]) for style in _plot._STYLES.values()]
    assert len(set(dashes)) == len(dashes)


@pytest.mark.parametrize(
    ("longest_us", "unit"), [(5_000, "milliseconds"), (5e6, "seconds"), (700e6, "minutes"), (9e9, "hours")]
)
def test_units_of_time(longest_us: float, unit: str) -> None:
    assert _plot._time_unit(int(longest_us))[0] == unit


def test_a_trace_without_times_is_drawn_by_events() -> None:
    still = [Sample(sample.event, 0, sample.requested, sample.reserved) for sample in STEPS]
    (axes,) = _plot.figure([panel(curves=[_plot.Curve("native", still, True, 4 * GIB)])]).axes
    assert axes.get_xlabel() == "event" and lines_of(axes)["native"][0] == [0, 5, 9]


def test_the_command_draws_every_trace(reprieve: Any, trace_file: Any, tmp_path: Path) -> None:
    name = "picture.png"
    text = "".join(f"a,{i},1048576,0,{i * 1000}\n" for i in range(100))
    files = trace_file(text, "one.csv"), trace_file(text, "two.csv")
    ended = reprieve("replay", "--limit", "64MiB", "--plot", tmp_path / name, *files)
    assert ended.code == 0 and f"picture: {tmp_path / name}" in ended.out
    assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(("name", "magic"), [("picture.svg", b"<?xm"), ("picture.pdf", b"%PDF")])
def test_other_formats(tmp_path: Path, name: str, magic: bytes) -> None:
    _plot.save(tmp_path / name, [panel()])
    assert (tmp_path / name).read_bytes()[:4] == magic


def test_too_many_traces(reprieve: Any, trace_file: Any, tmp_path: Path) -> None:
    ended = reprieve("replay", "--plot", tmp_path / "x.png", *[trace_file("a,0,1,0,0\n")] * 7)
    assert ended.code == 2 and ended.err == "reprieve: --plot: 7 traces, a picture has room for 6\n"


def test_a_file_that_cannot_be_written(reprieve: Any, trace_file: Any, tmp_path: Path) -> None:
    target = tmp_path / ("x" * 300 + ".png")
    ended = reprieve("replay", "--policy", "native", "--plot", target, trace_file("a,0,1,0,0\n"))
    assert ended.code == 2 and ended.out == ""
    assert ended.err == f"reprieve: --plot: {target} cannot be written: File name too long\n"


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        _plot.PlotError, match=r"matplotlib is not installed: pip install 'reprieve\[plot\]'"
    ) as refused:
        _plot.check(tmp_path / "x.png", 1)
    assert refused.value.exit_code == 1
