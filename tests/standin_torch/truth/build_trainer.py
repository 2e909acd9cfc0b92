"""Builds a C++ program against the torch that is installed: headers and libraries of its wheel, g++, no CUDA toolkit."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess

DIRECTORIES = ("include", "include/torch/csrc/api/include")


def torch_folder() -> pathlib.Path:
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        raise RuntimeError("torch is not installed here")
    return pathlib.Path(found.origin).parent


def cuda_headers(site: pathlib.Path) -> list[pathlib.Path]:
    """The folders that have CUDA's headers: of NVIDIA's wheels, else of a toolkit; Triton has those that wheels lack."""
    wheels = sorted(site.glob("nvidia/cu*/include")) + sorted(site.glob("nvidia/cuda_runtime/include"))
    toolkits = [pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"]
    found = [folder for folder in [*wheels, *toolkits] if (folder / "cuda_runtime_api.h").exists()]
    if not found:
        raise RuntimeError(f"no cuda_runtime_api.h in {site}/nvidia nor in {toolkits[0]}: pip install nvidia-cuda-runtime")
    return [found[0], site / "triton" / "backends" / "nvidia" / "include"]


def build(source: pathlib.Path, program: pathlib.Path) -> None:
    torch = torch_folder()
    headers = cuda_headers(torch.parent)
    command = ["g++", "-std=c++20", "-O0", "-w", str(source), "-o", str(program)]
    command += [f"-I{torch / folder}" for folder in DIRECTORIES]
    command += [f"-I{headers[0]}", "-idirafter", str(headers[1])]
    command += [f"-L{torch / 'lib'}", f"-Wl,-rpath,{torch / 'lib'}", "-Wl,--no-as-needed", "-ltorch_cuda", "-ltorch_cpu"]
    command += ["-ltorch", "-lc10_cuda", "-lc10", "-Wl,--allow-shlib-undefined"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
