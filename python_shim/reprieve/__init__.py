"""reprieve: a caching allocator for CUDA memory that recovers from out-of-memory.

Importing this package loads nothing: neither the library nor the command line's packages.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as type checkers know it; typing itself would have to be imported
if TYPE_CHECKING:
    from typing import Any

    from reprieve._torch import InstallError, install, is_installed

__all__ = ["InstallError", "__version__", "cmake_dir", "install", "is_installed", "library_path"]

__version__: str


def library_path() -> str:
    """The path of libreprieve.so, for torch.cuda.memory.CUDAPluggableAllocator.

    The two function names that go with it are "reprieve_malloc" and "reprieve_free".
    Raises FileNotFoundError where the package has no library.
    """
    from reprieve import _native

    return _native.library_path()


def cmake_dir() -> str:
    """The directory for CMake's find_package(reprieve), to be given as -Dreprieve_DIR.

    Raises FileNotFoundError where the package is not installed, as in a build tree.
    """
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "cmake", "reprieve")
    if not os.path.isfile(os.path.join(path, "reprieveConfig.cmake")):
        raise FileNotFoundError(f"no reprieveConfig.cmake in {path}: install the package (pip install .)")
    return path


def __getattr__(name: str) -> Any:
    if name in ("InstallError", "install", "is_installed"):
        from reprieve import _torch

        return getattr(_torch, name)
    # The version is the loaded library's own, so that it cannot differ from the library; asking for it loads that.
    if name == "__version__":
        from reprieve import _native

        return _native.version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
