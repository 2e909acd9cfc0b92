"""reprieve.install(): what it refuses, with the remedy, and what it costs."""

from __future__ import annotations

import os
import sys
import threading
import warnings

import pytest
import torch
from facts import empty
from pair import ours, run, script

import reprieve


def check(body: object) -> None:
    """Runs the body in a process in which nothing is installed yet."""
    ended = run(body)  # type: ignore[arg-type]
    assert ended.status == 0, ended.output


def refused(text: str, **options: object) -> None:
    with pytest.raises(reprieve.InstallError, match=text) as caught:
        reprieve.install(**options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert not reprieve.is_installed()


def too_late() -> None:
    held = empty(1000)
    refused(r"used the GPU already: call reprieve.install\(\) before the first CUDA call")
    assert torch.cuda.get_allocator_backend() == "native"
    assert held.nbytes + empty(10).nbytes == 1010


def twice() -> None:
    reprieve.install(limit="1GiB")
    reprieve.install()
    with pytest.raises(reprieve.InstallError, match=r"installed already: give its options at the first install\(\)"):
        reprieve.install(limit="2GiB")
    empty(10)
    reprieve.install()
    assert reprieve.is_installed()


def another_allocator() -> None:
    functions = (reprieve.library_path(), "reprieve_malloc", "reprieve_free")
    torch.cuda.memory.change_current_allocator(torch.cuda.memory.CUDAPluggableAllocator(*functions))
    refused(r"another pluggable allocator is in place: call reprieve.install\(\) instead of it")
    assert torch.cuda.get_allocator_backend() == "pluggable"


def another_torch() -> None:
    torch.__version__ = "9.9.9+cu999"  # type: ignore[assignment]
    refused(r"no adapter for torch 9\.9\.9\+cu999 \(there are adapters for .*\): install reprieve next to it")


def no_cuda_build() -> None:
    torch.version.cuda = None
    refused("is built without CUDA: install a CUDA build of torch")


def no_device() -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    refused("torch sees no CUDA device: check the driver with nvidia-smi, and CUDA_VISIBLE_DEVICES")


def bad_options() -> None:
    for options, named in (
        ({"limit": "lots"}, "limit"),
        ({"limit": -5}, "limit"),
        ({"chunk_max": "1 byte"}, "chunk_max"),
        ({"no_such_option": 1}, "no_such_option"),
    ):
        with pytest.raises(ValueError, match=named) as caught:
            reprieve.install(**options)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
        assert not reprieve.is_installed()
    assert torch.cuda.get_allocator_backend() == "native"
    reprieve.install(limit="1GiB")
    assert empty(10).nbytes == 10


@pytest.mark.parametrize(
    "body", [too_late, twice, another_allocator, another_torch, no_cuda_build, no_device, bad_options]
)
def test_refusals(body: object) -> None:
    check(body)


@ours()
def test_installed() -> None:
    assert reprieve.is_installed()
    assert not torch.cuda.is_initialized(), "installing is no CUDA call"
    assert empty(10).nbytes == 10
    assert torch.cuda.get_allocator_backend() == "reprieve"


def starts_nothing() -> None:
    threads = set(os.listdir("/proc/self/task"))
    for name in [name for name in sys.modules if name.split(".")[0] == "reprieve"]:
        del sys.modules[name]
    import reprieve as again

    with open("/proc/self/maps") as maps:
        assert "/libreprieve.so" not in maps.read()
    again.install()
    assert set(os.listdir("/proc/self/task")) == threads
    assert threading.active_count() == 1
    assert not torch.cuda.is_initialized()


def test_importing_starts_no_thread_and_touches_no_cuda() -> None:
    check(starts_nothing)


def test_cost_of_importing() -> None:
    """Measured and shown, not asserted: it is far under 50 ms where nothing else runs."""
    ended = script(
        "import torch, time; begin = time.perf_counter(); import reprieve; reprieve.install; "
        "print(1000 * (time.perf_counter() - begin))"
    )
    assert ended.status == 0, ended.output
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        print(f"import reprieve took {float(ended.found):.1f} ms")
