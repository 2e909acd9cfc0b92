"""torch.compile with Triton: kernels are compiled as for a GPU, and launched on the simulated one."""

from __future__ import annotations

import os
import pathlib
import shutil
import sysconfig

import pytest
import torch
from models import llama, tokens, train
from scenario import scenario
from torch._inductor import config as inductor
from torch._inductor.runtime import benchmarking

import sim

pytest.importorskip("triton", reason="Triton is not installed")
if not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists():
    pytest.skip("no Python.h, with which Triton builds its launcher (python3-dev)", allow_module_level=True)
if not (shutil.which("gcc") or shutil.which("cc")):
    pytest.skip("no C compiler, with which Triton builds its launcher (gcc)", allow_module_level=True)

# Without workers, whose start takes longer than these few kernels, and with few trials of variants of each kernel: all
# take the same modelled time, and each trial clears the L2 cache 200 times, 60 MB of real bytes, were it not made small.
COMPILE = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_DETERMINISTIC": "1"}


@pytest.fixture(scope="module")
def caches(folder: pathlib.Path) -> dict[str, str]:
    return {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TRITON_CACHE_DIR": str(folder / "triton")}


@scenario(**COMPILE)
def test_function(caches: dict[str, str]) -> None:
    set_up(caches)
    x = torch.randn(1000).cuda().requires_grad_()
    compiled = torch.compile(lambda value: (value * 2).relu().sum())
    compiled(x).backward()
    assert compiled(x).shape == ()
    assert x.grad is not None
    assert sim.launches("triton") >= 2


def set_up(caches: dict[str, str]) -> None:
    os.environ.update(caches)
    inductor.triton.autotune_pointwise = False
    benchmarking.InductorBenchmarker.L2_cache_size = 1 << 16


@scenario(**COMPILE)
def test_llama(caches: dict[str, str]) -> None:
    set_up(caches)
    peaks = train(torch.compile(llama(layers=4)))
    assert len(set(peaks[2:])) == 1
    assert sim.launches("triton") > 20


@scenario(**COMPILE)
def test_llama_reduce_overhead(caches: dict[str, str]) -> None:
    """Graphs are captured, into private pools, and replayed."""
    set_up(caches)
    model = llama(layers=4)
    compiled = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(5):
        torch.compiler.cudagraph_mark_step_begin()
        batch = tokens(step)
        compiled(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    pools = {tuple(segment["segment_pool_id"]) for segment in torch.cuda.memory_snapshot()}
    assert len(pools) > 1
