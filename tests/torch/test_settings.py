"""PYTORCH_ALLOC_CONF and its like: what torch accepts is accepted, what it refuses refused alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from facts import counters, empty
from pair import both, differences, run, script

ACCEPTED = (
    "max_split_size_mb:64",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[256:1,512:2,>:4]",
    "garbage_collection_threshold:0.6",
    "expandable_segments:True",
    "expandable_segments:False",
    "release_lock_on_cudamalloc:True",
    "pinned_use_cuda_host_register:True",
    "pinned_num_register_threads:4",
    "pinned_use_background_threads:True",
    "graph_capture_record_stream_reuse:True",
    "per_process_memory_fraction:0.5",
)
REFUSED = ("no_such_key:1", "max_split_size_mb:4", "garbage_collection_threshold:7", "expandable_segments:Maybe", "max_split_size_mb")


@both()
def test_settings_at_run_time() -> list[Any]:
    held = empty(1000)
    out: list[Any] = []
    for text in ACCEPTED:
        torch.cuda.memory._set_allocator_settings(text)
        out.append((text, empty(5000).nbytes, empty(3 << 20).nbytes))
    for text in REFUSED:
        with pytest.raises((RuntimeError, ValueError)) as caught:
            torch.cuda.memory._set_allocator_settings(text)
        out.append((text, type(caught.value).__name__, str(caught.value).splitlines()[0]))
    return [out, counters(), held.nbytes]


@both()
def test_toggling_expandable_segments() -> list[Any]:
    """As trainers do around sleeping and waking."""
    out: list[Any] = []
    held = []
    for step in range(6):
        torch.cuda.memory._set_allocator_settings(f"expandable_segments:{step % 2 == 0}")
        held.append(empty((step + 1) << 20))
        out.append(counters())
    shown = torch.cuda.memory._snapshot()["allocator_settings"]
    return [out, len(held), shown["PYTORCH_CUDA_ALLOC_CONF"], shown["expandable_segments"]]


def uses_the_gpu() -> dict[str, int]:
    held = [empty(1000), empty(3 << 20)]
    assert held[0].nbytes == 1000
    return counters()


@pytest.mark.parametrize("variable", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_variable(variable: str) -> None:
    text = "max_split_size_mb:64,garbage_collection_threshold:0.6,roundup_power2_divisions:4,expandable_segments:True"
    ended = [run(uses_the_gpu, options=options, fresh=True, **{variable: text}) for options in (None, {})]
    assert [each.status for each in ended] == [0, 0], ended
    assert not list(differences(ended[0].found, ended[1].found))


@pytest.mark.parametrize("backend", ["native", "cudaMallocAsync"])
def test_backend_keys_do_not_break_the_start(backend: str) -> None:
    ended = run(uses_the_gpu, options={}, fresh=True, PYTORCH_CUDA_ALLOC_CONF=f"backend:{backend}")
    if backend == "native":
        assert ended.status == 0, ended.output
    else:  # asked for another allocator and for ours: one line says so, or ours is taken
        assert ended.status == 0 or "InstallError" in ended.output, ended.output


def test_unknown_key_is_refused_as_torch_refuses_it() -> None:
    texts = []
    for install in ("", "import reprieve; reprieve.install();"):
        program = f"import torch; {install} torch.empty(1, device='cuda')"
        ended = script(program, PYTORCH_CUDA_ALLOC_CONF="no_such_key:1")
        texts.append((ended.status, "no_such_key" in ended.output))
    assert texts[0] == texts[1] == (1, True)
