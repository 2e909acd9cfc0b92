"""The Python package as users get it: an sdist that builds, a wheel from it, and that wheel in a fresh environment.

Builds the library once more, so it takes some tens of seconds. Nothing is fetched: the environment of the tests has
what the build needs.
"""

import os
import pathlib
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE_EVENTS = "op,id,bytes,stream,time_us\na,1,1048576,0,0\na,2,4194304,0,10\nf,1,1048576,0,20\nf,2,4194304,0,30\n"


def run(*command, **options):
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, timeout=600, **options
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    out = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", out, ROOT)
    (archive,) = out.glob("reprieve-*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory):
    """Built from the unpacked sdist, so that nothing of the checkout can help."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder)
    (source,) = folder.iterdir()
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, source)
    (archive,) = out.glob("reprieve-*.whl")
    return archive


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A fresh environment with the wheel; the packages that it needs are the ones of the environment of the tests."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    site = pathlib.Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    site.mkdir(parents=True, exist_ok=True)
    (site / "outer.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")) + "\n")
    run(sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--no-index", "--no-deps",
        "--no-compile", wheel)
    return folder


def clean_environment():
    """Without the variables that point the package at the build tree."""
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "REPRIEVE_LIBRARY_DIR"}}


def header_version():
    lines = (ROOT / "include" / "reprieve" / "reprieve.h").read_text(encoding="utf-8").splitlines()
    return ".".join(
        line.split()[2] for part in ("MAJOR", "MINOR", "PATCH") for line in lines
        if line.startswith(f"#define REPRIEVE_VERSION_{part} ")
    )


def test_the_sdist_holds_what_the_build_needs_and_no_more(sdist):
    assert sdist.name == f"reprieve-{header_version()}.tar.gz"
    with tarfile.open(sdist) as archive:
        folders = {pathlib.PurePath(name).parts[1] for name in archive.getnames() if "/" in name}
    assert folders == {
        "CMakeLists.txt", "CMakePresets.json", "LICENSE", "PKG-INFO", "README.md", "include", "pyproject.toml",
        "python_shim", "src",
    }


def test_the_wheel_serves_every_python_and_holds_one_copy_of_each_library(wheel):
    assert wheel.name.startswith(f"reprieve-{header_version()}-py3-none-")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    libraries = {name for name in names if ".so" in name}
    assert libraries == {
        "reprieve/lib/libreprieve.so.0", "reprieve/lib/libreprieve_replay.so", "reprieve/lib/libreprieve_simgpu.so",
    }
    assert "reprieve/lib/cmake/reprieve/reprieveConfig.cmake" in names
    assert "reprieve/include/reprieve/reprieve.h" in names
    assert "reprieve/_recorder/sitecustomize.py" in names, "what `reprieve record` puts into a job"
    outside = {name for name in names if not name.startswith(("reprieve/", f"reprieve-{header_version()}.dist-info/"))}
    assert not outside


def test_the_installed_package_finds_its_library_and_its_cmake_files(installed, tmp_path):
    code = "import reprieve; print(reprieve.__version__, reprieve.library_path(), reprieve.cmake_dir(), sep='\\n')"
    version, library, cmake = run(
        installed / "bin" / "python", "-c", code, cwd=tmp_path, env=clean_environment()
    ).splitlines()
    assert version == header_version()
    assert pathlib.Path(library).is_relative_to(installed) and pathlib.Path(library).is_file()
    assert pathlib.Path(cmake).is_relative_to(installed)


def test_the_installed_command_replays_a_trace(installed, tmp_path):
    (tmp_path / "small.csv").write_text(TRACE_EVENTS)
    output = run(installed / "bin" / "reprieve", "replay", "--json", "small.csv", cwd=tmp_path, env=clean_environment())
    assert '"peak_requested_bytes": 5242880' in output


def test_the_installed_command_refuses_in_one_line(installed, tmp_path):
    (tmp_path / "bad.csv").write_text(TRACE_EVENTS + "f,3,1,0,40\n")
    result = subprocess.run(
        [installed / "bin" / "reprieve", "replay", "bad.csv"],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=clean_environment(),
    )
    assert result.returncode == 2
    assert "bad.csv:6:" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_program_is_built_against_the_installed_package(installed, tmp_path):
    python = installed / "bin" / "python"
    cmake_dir = run(python, "-c", "import reprieve; print(reprieve.cmake_dir())", env=clean_environment()).strip()
    consumer = ROOT / "tests" / "package" / "consumer"
    run("cmake", "-G", "Ninja", "-S", consumer, "-B", tmp_path, f"-Dreprieve_DIR={cmake_dir}")
    run("cmake", "--build", tmp_path)
    assert "ok" in run(tmp_path / "consumer", env=clean_environment() | {"REPRIEVE_DEVICE": "sim"})
