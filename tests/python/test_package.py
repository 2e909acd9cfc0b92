"""What `import reprieve` gives, and what it does not cost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import reprieve
from reprieve import _native


def test_importing_loads_nothing() -> None:
    # The command line's packages, and those that are slow to import, come with what needs them.
    program = "import sys; before = set(sys.modules); import reprieve; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) <= {"reprieve", "__future__"}


def test_library_path_is_a_library_with_the_pluggable_functions() -> None:
    path = reprieve.library_path()
    assert os.path.isabs(path)
    data = Path(path).read_bytes()
    assert data.startswith(b"\x7fELF")
    assert b"reprieve_malloc" in data and b"reprieve_free" in data


def test_version_is_the_librarys() -> None:
    assert reprieve.__version__ == _native.version()
    assert [part.isdigit() for part in reprieve.__version__.split(".")] == [True] * 3


def test_unknown_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'instal'"):
        reprieve.instal  # noqa: B018


def test_no_library_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRIEVE_LIBRARY_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"no libreprieve\.so in .*: install the package"):
        reprieve.library_path()


def test_library_of_a_wheel_has_its_version_behind_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRIEVE_LIBRARY_DIR", str(tmp_path))
    for name in ("libreprieve_replay.so", "libreprieve.so.0.1.0", "libreprieve.so.0"):
        (tmp_path / name).touch()
    assert reprieve.library_path() == str(tmp_path / "libreprieve.so.0")
    (tmp_path / "libreprieve.so").touch()
    assert reprieve.library_path() == str(tmp_path / "libreprieve.so")


def test_cmake_dir_is_the_installed_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reprieve, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(FileNotFoundError, match=r"no reprieveConfig\.cmake in .*: install the package"):
        reprieve.cmake_dir()
    config = tmp_path / "lib" / "cmake" / "reprieve"
    config.mkdir(parents=True)
    (config / "reprieveConfig.cmake").touch()
    assert reprieve.cmake_dir() == str(config)


def test_every_option_says_everything() -> None:
    options = list(_native.options())
    assert {"device", "limit", "sim_capacity"} <= {option.name for option in options}
    for option in options:
        assert option.environment == "REPRIEVE_" + option.name.upper()
        assert option.type and option.default and option.accepted and option.text
