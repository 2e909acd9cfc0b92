"""Trains a small Llama on sequences of varying length under a memory limit of a little more than it needs.

Each allocator runs in a process of its own: torch's native one without a limit, which tells what the job needs (the
peak of requested bytes) and the losses to compare with; then torch's two under 1.03 x that, as a fraction of the card;
then reprieve's pluggable functions under the same limit. Deterministic algorithms, eager attention, fp32.

    python benchmarks/train_under_limit.py [--steps 20] [--factor 1.03]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import time


def train(steps: int) -> dict[str, object]:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=2048,
        num_hidden_layers=12,
        intermediate_size=5632,
        num_attention_heads=16,
        num_key_value_heads=16,
        vocab_size=32000,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    lengths = torch.randint(128, 2048, (steps,), generator=torch.Generator().manual_seed(1)).tolist()
    losses: list[float] = []
    times: list[float] = []
    outcome = "finished"
    for step, length in enumerate(lengths):
        started = time.perf_counter()
        tokens = torch.randint(0, 32000, (4, length), generator=torch.Generator().manual_seed(step)).cuda()
        try:
            loss = model(input_ids=tokens, labels=tokens).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
        except RuntimeError as error:
            if "CUDA out of memory" not in str(error):
                raise
            outcome = f"out of memory at step {step + 1}"
            break
        times.append(time.perf_counter() - started)
    tail = sorted(times[1:])
    return {
        "outcome": outcome,
        "steps": len(losses),
        "losses": losses,
        "median_step_ms": 1000 * tail[len(tail) // 2] if tail else None,
    }


def child(allocator: str, limit: int, steps: int) -> None:
    import torch

    if allocator == "reprieve":
        import reprieve

        library = reprieve.library_path()
        pluggable = torch.cuda.memory.CUDAPluggableAllocator(str(library), "reprieve_malloc", "reprieve_free")
        record = ctypes.cast(ctypes.CDLL(str(library)).reprieve_record_stream, ctypes.c_void_p)
        pluggable.allocator().set_record_stream_fn(record.value)
        torch.cuda.memory.change_current_allocator(pluggable)
    elif limit:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.memory.set_per_process_memory_fraction(limit / total)
    result = train(steps)
    if allocator == "reprieve":
        result |= reprieve_stats(str(library))
    else:
        stats = torch.cuda.memory_stats()
        result["requested_peak"] = stats["requested_bytes.all.peak"]
        result["reserved_peak"] = stats["reserved_bytes.all.peak"]
    print(json.dumps(result))


def reprieve_stats(library: str) -> dict[str, object]:
    class Counter(ctypes.Structure):
        _fields_ = [(name, ctypes.c_int64) for name in ("current", "peak", "allocated", "freed")]

    names = ("requested", "allocated", "active", "inactive_split", "reserved")

    class Stats(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), *[(name, Counter) for name in names]]

    stats = Stats()
    stats.size = ctypes.sizeof(Stats)
    loaded = ctypes.CDLL(library)
    if loaded.reprieve_get_stats(0, ctypes.byref(stats)) != 0:
        loaded.reprieve_last_error.restype = ctypes.c_char_p
        raise RuntimeError(loaded.reprieve_last_error().decode())
    return {"requested_peak": stats.requested.peak, "reserved_peak": stats.reserved.peak}


def run(allocator: str, limit: int, steps: int) -> dict[str, object]:
    environment = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8", TOKENIZERS_PARALLELISM="false")
    environment.pop("PYTORCH_CUDA_ALLOC_CONF", None)
    if allocator == "expandable":
        environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    if allocator == "reprieve" and limit:
        environment["REPRIEVE_LIMIT"] = str(limit)
    command = [sys.executable, __file__, "--child", allocator, "--limit", str(limit), "--steps", str(steps)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{allocator}: {done.stderr}")
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


def gib(value: object) -> str:
    return f"{int(str(value)) / 2**30:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--factor", type=float, default=1.03)
    parser.add_argument("--limit", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.limit, arguments.steps)
        return

    import torch

    free = run("native", 0, arguments.steps)
    peak = int(str(free["requested_peak"]))
    limit = int(peak * arguments.factor)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; the job asks for {gib(peak)} GiB at most, "
          f"the limit is {gib(limit)} GiB")
    print("| allocator | limit GiB | outcome | reserved peak GiB | losses equal | median step ms |")
    print("|---|---|---|---|---|---|")
    failed = False
    for allocator, cap in (("native", 0), ("reprieve", 0), ("native", limit), ("expandable", limit), ("reprieve", limit)):
        result = free if (allocator, cap) == ("native", 0) else run(allocator, cap, arguments.steps)
        losses = result["losses"]
        assert isinstance(losses, list)
        assert isinstance(free["losses"], list)
        equal = losses == free["losses"][: len(losses)]
        step_ms = result["median_step_ms"]
        print(f"| {allocator} | {gib(cap) if cap else 'none'} | {result['outcome']} | {gib(result['reserved_peak'])} | "
              f"{'yes' if equal else 'NO'} | {step_ms if step_ms is None else f'{step_ms:.1f}'} |")
        if allocator == "reprieve" and not (equal and result["outcome"] == "finished"):
            failed = True
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
