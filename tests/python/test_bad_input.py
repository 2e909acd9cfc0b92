"""Bad input gets one line on stderr and exit code 2, and nothing on stdout."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

ROWS = 40_000
GOOD = "op,id,bytes,stream,time_us\na,0,4096,0,0\nf,0,,0,5\n"
LONG = "".join(f"a,{i},512,0,{i}\nf,{i},,0,{i}\n" for i in range(ROWS))


def assert_refused(ended, line: str) -> None:
    assert ended.err == f"reprieve: {line}\n"
    assert ended.out == ""
    assert ended.code == 2


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "the trace is empty, it must have at least one event op,id,bytes,stream,time_us"),
        ("x,0,1,0,0\n", 1, "op 'x' is unknown, accepted are a (allocate), f (free) and r (record_stream)"),
        ("a,0,1,0\n", 1, "4 fields, a trace has 5: op,id,bytes,stream,time_us"),
        (
            "# h\na,0,many,0,0\n",
            2,
            "bytes 'many' is not a number, accepted are whole numbers from 0 to 9223372036854775807",
        ),
        ("a,0,-1,0,0\n", 1, "bytes '-1' is negative, accepted are whole numbers from 0 to 9223372036854775807"),
        ("a,0,1,0,0\nf,1,,0,0\n", 2, "id 1 is freed but was never allocated, it must be a live block's"),
        ("a,0,1,0,0\nf,0,,0,0\nf,0,,0,0\n", 3, "id 0 is freed but was freed before, it must be a live block's"),
        ("a,0,1,0,0\na,0,1,0,0\n", 2, "id 0 is allocated again (first on line 1), each id may be allocated once"),
        ("a,0,1,0,5\nf,0,,0,4\n", 2, "time_us 4 is before the line above's 5, times must not go back"),
        ("a,0,1,0,0\nf,0,,0,1", 2, "the file is cut short in this line, every line ends in a newline"),
        ("\x00\x01 no trace\n", 1, "1 field, a trace has 5: op,id,bytes,stream,time_us"),
    ],
)
@pytest.mark.parametrize("name", ["bad.csv", "bad.csv.gz"])
def test_a_file_that_is_no_trace(reprieve, trace_file, text: str, line: int, message: str, name: str) -> None:
    path = trace_file(text, name)
    assert_refused(reprieve("replay", path), f"{path}:{line}: {message}")


def test_a_gzip_file_that_is_cut_short(reprieve, tmp_path: Path) -> None:
    path = tmp_path / "cut.csv.gz"
    whole = gzip.compress(LONG.encode())
    path.write_bytes(whole[: len(whole) // 2])
    ended = reprieve("replay", path)
    assert ended.code == 2 and ended.out == ""
    where, what = ended.err.removeprefix(f"reprieve: {path}:").split(": ", 1)
    assert what == "the file is cut short here, a gzip file must be whole\n"
    assert ROWS / 2 < int(where) < 2 * ROWS * 0.75, "the line at which the text ends"


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda data: data[:-1], "the file is cut short here"),  # in the check sum: all text is there
        (lambda data: data[:-8] + bytes(4) + data[-4:], "the gzip data is damaged here"),
        (lambda data: data + b"more", "something that is not gzip follows here"),
        (lambda data: data[:2], "the file is cut short here"),
    ],
)
def test_a_gzip_file_that_is_damaged(reprieve, tmp_path: Path, damage: Callable[[bytes], bytes], what: str) -> None:
    path = tmp_path / "damaged.csv.gz"
    path.write_bytes(damage(gzip.compress(GOOD.encode())))
    ended = reprieve("replay", path)
    line = 1 if what.startswith("the file") and path.stat().st_size == 2 else None
    assert ended.code == 2 and ended.out == ""
    assert ended.err.count("\n") == 1 and f": {what}, a gzip file must be whole" in ended.err
    assert line is None or ended.err.startswith(f"reprieve: {path}:{line}: ")


def test_gzip_in_several_parts_and_padded_is_whole(reprieve, tmp_path: Path) -> None:
    path = tmp_path / "parts.csv.gz"
    path.write_bytes(gzip.compress(GOOD[:30].encode()) + gzip.compress(GOOD[30:].encode()) + bytes(512))
    assert reprieve("replay", "--repeat", 1, path).code == 0


def test_a_file_that_cannot_be_read(reprieve, tmp_path: Path) -> None:
    missing = tmp_path / "missing.csv"
    assert_refused(reprieve("replay", missing), f"{missing}: cannot be read: No such file or directory")
    assert_refused(reprieve("replay", tmp_path), f"{tmp_path}: cannot be read: Is a directory")


def test_one_bad_file_among_good_ones_leaves_nothing_half_done(reprieve, trace_file) -> None:
    good, bad = trace_file(GOOD, "good.csv"), trace_file("a,0,1,0\n", "bad.csv")
    ended = reprieve("replay", "--json", good, bad)
    assert_refused(ended, f"{bad}:1: 4 fields, a trace has 5: op,id,bytes,stream,time_us")


@pytest.mark.parametrize("option", ["--limit", "--capacity"])
@pytest.mark.parametrize("size", ["many", "24PiB", "-1", ""])
def test_a_size_that_is_none(reprieve, trace_file, option: str, size: str) -> None:
    accepted = "accepted are bytes such as 25769803776 and sizes such as 24GiB, 512MiB and 1.5TiB"
    ended = reprieve("replay", trace_file(GOOD), f"{option}={size}")
    assert_refused(ended, f"{option}: {size!r} is not a size, {accepted}")


def test_a_limit_that_the_library_refuses(reprieve, trace_file) -> None:
    ended = reprieve("replay", "--policy", "reprieve", trace_file(GOOD), "--limit", "1MiB")
    assert ended.code == 2 and ended.out == "" and ended.err.count("\n") == 1
    assert ended.err.startswith("reprieve: limit: '1048576' is not accepted: 0, or a size")


def test_options_that_exclude_each_other(reprieve, trace_file) -> None:
    path = trace_file(GOOD)
    assert_refused(
        reprieve("replay", path, "--limit", "24GiB", "--min-limit"),
        "--limit and --min-limit exclude each other, accepted is one of them",
    )
    assert_refused(
        reprieve("replay", path, "--device", "cuda", "--capacity", "24GiB"),
        "--capacity is the simulated device's, accepted with --device sim only",
    )


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("fly",),
        ("replay",),
        ("replay", "x.csv", "--repeat", "0"),
        ("replay", "x.csv", "--device", "tpu"),
        ("--what",),
    ],
)
def test_a_wrong_command_line(reprieve, arguments: tuple[str, ...]) -> None:
    ended = reprieve(*arguments)
    assert ended.code == 2 and ended.out == ""
    assert ended.err.startswith("reprieve: ") and ended.err.endswith(", see reprieve --help\n")
    assert ended.err.count("\n") == 1


def test_no_library_is_no_bad_input(reprieve, trace_file, tmp_path: Path) -> None:
    ended = reprieve("replay", trace_file(GOOD), REPRIEVE_LIBRARY_DIR=str(tmp_path))
    assert ended.code == 1 and ended.out == "" and ended.err.count("\n") == 1
    assert "no libreprieve.so in" in ended.err
