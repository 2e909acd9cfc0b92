from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture
def reprieve() -> Callable[..., Ended]:
    """Runs the command line in a process of its own, as its user does."""

    def run(*arguments: object, **environment: str) -> Ended:
        command = [sys.executable, "-m", "reprieve", *map(str, arguments)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return run


@pytest.fixture
def trace_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a trace, gzipped where its name says so."""

    def write(text: str | bytes, name: str = "some.csv") -> Path:
        data = text.encode() if isinstance(text, str) else text
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write
