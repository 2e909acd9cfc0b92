"""Reading a file for a replay: its bytes, gunzipped where they need it, and what they are."""

from __future__ import annotations

import zlib
from pathlib import Path

_GZIP_MAGIC = b"\x1f\x8b"
_ZIP_MAGIC = b"PK\x03\x04"
_PICKLE_MAGIC = b"\x80"  # of protocol 2 and later
_PICKLE_NAMES = (".pickle", ".pkl", ".pickle.gz", ".pkl.gz")
_MOST_TIMES_LARGER = 300  # than its gzip file; stacks of one training step after another reach 100
_LEAST_MOST = 256 << 20
_STEP = 1 << 16  # so little of a damaged file's end is lost that the line where it breaks off is the one named


class TraceFileError(Exception):
    """The file cannot be read. `line` is where its text ends, from 1; 0 where it has none."""

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.line = line


def read(path: Path) -> bytes:
    """What is in the file, which is gzip if it begins as gzip does, whatever its name."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TraceFileError(f"cannot be read: {error.strerror or error}") from error
    if data.startswith(_GZIP_MAGIC):
        data = _gunzip(data)
    if data.startswith(_ZIP_MAGIC):
        raise TraceFileError(
            "is a zip archive (torch.save's, perhaps), accepted are traces in CSV and pickled snapshots"
        )
    return data


def is_snapshot(path: Path, data: bytes) -> bool:
    """Whether this is a pickle, or is called one."""
    return data.startswith(_PICKLE_MAGIC) or path.name.lower().endswith(_PICKLE_NAMES)


def name(path: Path) -> str:
    """What a report calls the trace: the file's name without .csv, .pickle, .pkl and .gz."""
    name = path.name.removesuffix(".gz")
    return next((name.removesuffix(end) for end in (".csv", ".pickle", ".pkl") if name.endswith(end)), name)


def _gunzip(data: bytes) -> bytes:
    text = bytearray()
    most = max(_LEAST_MOST, _MOST_TIMES_LARGER * len(data))

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
            if len(text) > most:
                raise TraceFileError(
                    f"the gzip data is over {_MOST_TIMES_LARGER} times as large unpacked, which no trace is: "
                    "unpack it first"
                )
            if member.eof:
                data = member.unused_data + data[begin + _STEP :]
                break
        else:
            raise broken("the file is cut short here")
    return bytes(text)
