"""Unmodified torch on the stand-in CUDA runtime. The whole of pytest runs on it:

    build/release/bin/reprieve-standin build/torch-2.11/bin/python -m pytest tests/standin_torch
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
# Scripts that the tests run, no tests themselves.
collect_ignore = ["truth"]

sys.path[:0] = [str(HERE), str(HERE / "truth")]
# torch then counts devices without a first call of CUDA, after which no child could be forked.
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

if not importlib.util.find_spec("torch"):
    missing = "torch is not installed in this Python"
elif "libcudart" not in os.environ.get("LD_PRELOAD", ""):
    missing = "pytest does not run on the stand-in runtime: reprieve-standin python -m pytest tests/standin_torch"
else:
    missing = ""
if missing:
    collect_ignore_glob = ["test_*.py"]


def pytest_report_header() -> str:
    return f"standin_torch: left out: {missing}" if missing else "standin_torch: on the stand-in CUDA runtime"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("standin")
