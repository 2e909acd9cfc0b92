"""torch.compile(mode="reduce-overhead"): trees of graphs, whose pool goes back to earlier states."""

from __future__ import annotations

import pathlib
import shutil
import sysconfig
from typing import Any

import pytest
import torch
from pair import both

pytest.importorskip("triton", reason="Triton is not installed")
if not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists():
    pytest.skip("no Python.h, with which Triton builds its launcher (python3-dev)", allow_module_level=True)
if not (shutil.which("gcc") or shutil.which("cc")):
    pytest.skip("no C compiler, with which Triton builds its launcher (gcc)", allow_module_level=True)

COMPILE = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}


@both(**COMPILE)
def test_reduce_overhead(folder: pathlib.Path) -> list[Any]:
    import os

    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64)).cuda()
    compiled = torch.compile(model, mode="reduce-overhead")
    peaks = []
    for step in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        # Two shapes: two branches of the tree, between which the pool's state is set back.
        out = compiled(torch.randn(8 if step % 2 else 16, 64).cuda())
        out.sum().backward()
        model.zero_grad(set_to_none=True)
        del out
        peaks.append(torch.cuda.memory_stats()["allocation.all.current"])
    pools = {tuple(segment["segment_pool_id"]) for segment in torch.cuda.memory_snapshot()}
    return [len(pools) > 1, peaks[-1] == peaks[-3]]
