"""torch on reprieve, compared with torch on its own allocator, on the stand-in CUDA runtime. All of pytest runs on it:

    build/release/bin/reprieve-standin build/torch-2.11/bin/python -m pytest tests/torch

REPRIEVE_LIBRARY_DIR says where the libraries are, if not in build/release/lib.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys
from collections.abc import Iterator

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]

sys.path[:0] = [str(HERE), str(ROOT / "python_shim")]
os.environ.setdefault("REPRIEVE_LIBRARY_DIR", str(ROOT / "build/release/lib"))
# torch then counts devices without a first call of CUDA, after which no child could be forked.
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"


def _missing() -> str:
    if not importlib.util.find_spec("torch"):
        return "torch is not installed in this Python"
    if "libcudart" not in os.environ.get("LD_PRELOAD", ""):
        return "pytest does not run on the stand-in runtime: reprieve-standin python -m pytest tests/torch"
    if not list(pathlib.Path(os.environ["REPRIEVE_LIBRARY_DIR"]).glob("adapters/*/libreprieve_torch.so")):
        return f"no adapter to torch in {os.environ['REPRIEVE_LIBRARY_DIR']}/adapters: build the target reprieve_torch"
    return ""


missing = _missing()


class LeftOut(pytest.Item):
    def runtest(self) -> None:
        pytest.skip(missing)


class LeftOutFile(pytest.File):
    """Stands for a module that cannot even be imported here, so that the report names it."""

    def collect(self) -> Iterator[pytest.Item]:
        yield LeftOut.from_parent(self, name="everything")


def pytest_pycollect_makemodule(module_path: pathlib.Path, parent: pytest.Collector) -> pytest.Collector | None:
    return LeftOutFile.from_parent(parent, path=module_path) if missing else None


def pytest_report_header() -> str:
    return f"torch: left out: {missing}" if missing else "torch: on the stand-in CUDA runtime"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("torch")
