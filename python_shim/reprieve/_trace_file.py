"""Reading a trace file: CSV, as it is or gzipped."""

from __future__ import annotations

import zlib
from pathlib import Path

_GZIP_MAGIC = b"\x1f\x8b"
_STEP = 1 << 16  # so little of a damaged file's end is lost that the line where it breaks off is the one named


class TraceFileError(Exception):
    """The file cannot be read. `line` is where its text ends, from 1; 0 where it has none."""

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.line = line


def read(path: Path) -> bytes:
    """The CSV in the file, which is gzip if it begins as gzip does, whatever its name."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TraceFileError(f"cannot be read: {error.strerror or error}") from error
    return _gunzip(data) if data.startswith(_GZIP_MAGIC) else data


def name(path: Path) -> str:
    """What a report calls the trace: the file's name without .csv and .gz."""
    return path.name.removesuffix(".gz").removesuffix(".csv")


def _gunzip(data: bytes) -> bytes:
    text = bytearray()

    def broken(what: str) -> TraceFileError:
        return TraceFileError(f"{what}, a gzip file must be whole", text.count(b"\n") + 1)

    while data:
        if not data.startswith(_GZIP_MAGIC):
            if data.strip(b"\0"):
                raise broken("something that is not gzip follows here")
            break  # padding with zeros is allowed, as gzip itself does
        member = zlib.decompressobj(wbits=31)
        for begin in range(0, len(data), _STEP):
            try:
                text += member.decompress(data[begin : begin + _STEP])
            except zlib.error:
                raise broken("the gzip data is damaged here") from None
            if member.eof:
                data = member.unused_data + data[begin + _STEP :]
                break
        else:
            raise broken("the file is cut short here")
    return bytes(text)
