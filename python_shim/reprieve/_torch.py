"""reprieve as torch's allocator: finding the adapter that fits the torch at hand, and putting it in place."""

from __future__ import annotations

import ctypes
import os
from typing import Any

_installed: ctypes.CDLL | None = None


class InstallError(RuntimeError):
    """reprieve cannot serve torch's allocations here; the text names the remedy. Torch's allocator stays in place."""


def _adapters_folder() -> str:
    from reprieve import _native

    return os.path.join(os.path.dirname(_native.library_path()), "adapters")


def _adapter_path(version: str) -> str:
    folder = _adapters_folder()
    path = os.path.join(folder, version, "libreprieve_torch.so")
    if os.path.isfile(path):
        return path
    built = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    others = f" (there are adapters for {', '.join(built)})" if built else ""
    raise InstallError(
        f"no adapter for torch {version}{others}: install reprieve next to it with "
        "pip install --no-build-isolation ."
    )


def _load(version: str) -> ctypes.CDLL:
    path = _adapter_path(version)
    library = ctypes.CDLL(path)
    library.reprieve_torch_built_for.restype = ctypes.c_char_p
    built_for = library.reprieve_torch_built_for().decode()
    if built_for != version:
        raise InstallError(f"{path} was built for torch {built_for}, this is torch {version}: install reprieve anew")
    return library


def _set_options(options: dict[str, Any]) -> None:
    from reprieve import _native

    core = ctypes.CDLL(_native.library_path())
    core.reprieve_last_error.restype = ctypes.c_char_p
    for name, value in options.items():
        if value is None:
            continue
        if core.reprieve_set_option(name.encode(), str(value).encode()) != 0:
            raise ValueError(core.reprieve_last_error().decode())


def install(limit: int | str | float | None = None, **options: Any) -> None:
    """Makes reprieve torch's CUDA allocator. To be called before the first CUDA call of the process.

    `limit` and `options` are those of docs/options.md; they win over REPRIEVE_* variables. Calling it again once it is
    installed changes nothing, and is an error if it names options. Raises InstallError, with the remedy, where reprieve
    cannot serve this torch, and ValueError for an option that is not accepted; torch's allocator then stays in place.
    """
    global _installed
    chosen = {"limit": limit, **options}
    if is_installed():
        if any(value is not None for value in chosen.values()):
            raise InstallError("reprieve is installed already: give its options at the first install()")
        return
    try:
        import torch
    except ImportError:
        raise InstallError("there is no torch in this Python: pip install torch") from None
    if torch.version.cuda is None:
        raise InstallError(f"torch {torch.__version__} is built without CUDA: install a CUDA build of torch")
    library = _load(torch.__version__)
    if torch.cuda.is_initialized():
        raise InstallError("torch has used the GPU already: call reprieve.install() before the first CUDA call")
    # Asks NVML where it can, so that a process which forks afterwards may still use CUDA in its children.
    if torch.cuda.device_count() == 0:
        raise InstallError("torch sees no CUDA device: check the driver with nvidia-smi, and CUDA_VISIBLE_DEVICES")
    backend = torch.cuda.memory.get_allocator_backend()
    if backend == "pluggable":
        raise InstallError("another pluggable allocator is in place: call reprieve.install() instead of it")
    _set_options(chosen)
    reason = ctypes.create_string_buffer(400)
    if library.reprieve_torch_install(reason, ctypes.c_size_t(len(reason))) != 0:
        raise InstallError(reason.value.decode(errors="replace"))
    _installed = library


def is_installed() -> bool:
    """Whether torch's CUDA allocations come from reprieve."""
    return _installed is not None and bool(_installed.reprieve_torch_is_installed())
