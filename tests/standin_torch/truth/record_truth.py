"""Runs the truth scripts with torch's native allocator on this machine's GPU and writes what it counted to a JSON file,
against which the tests compare the stand-in CUDA runtime.

    python tests/standin_torch/truth/record_truth.py [--output FILE]
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import build_trainer

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = ("llama", "lora", "resnet50", "mempool_graphs")
PACKAGES = ("torch", "transformers", "peft", "accelerate")


def environment() -> dict[str, str]:
    """Nothing from outside may configure torch's allocator or fetch anything."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTORCH_")}
    return kept | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def figures(name: str, wrapper: list[str], folder: pathlib.Path, **more: str) -> dict[str, object]:
    """Runs one script (or 'trainer', the C++ program, built in `folder`), through `wrapper` where there is one."""
    if name == "trainer":
        program = folder / "trainer"
        if not program.exists():
            build_trainer.build(HERE / "trainer.cpp", program)
        command = [str(program)]
    else:
        command = [sys.executable, str(HERE / f"{name}.py")]
    done = subprocess.run(wrapper + command, env=environment() | more, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{name}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


def machine() -> dict[str, object]:
    """Asked in a process of its own, which leaves no context on the card."""
    code = "import json, torch; p = torch.cuda.get_device_properties(0); print(json.dumps({'gpu': p.name, "
    code += "'total_memory': p.total_memory, 'capability': f'{p.major}.{p.minor}', "
    code += "'multiprocessors': p.multi_processor_count, 'cuda': torch.version.cuda}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def versions() -> dict[str, str]:
    return {package: importlib.metadata.version(package) for package in PACKAGES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=HERE / "h200.json")
    arguments = parser.parse_args()
    record: dict[str, object] = {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "machine": machine(),
        "versions": versions() | {"python": sys.version.split()[0]},
    }
    with tempfile.TemporaryDirectory() as folder:
        record["figures"] = {
            name: figures(name, [], pathlib.Path(folder)) for name in (*SCRIPTS, "trainer")
        }
    arguments.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"written: {arguments.output}")


if __name__ == "__main__":
    main()
