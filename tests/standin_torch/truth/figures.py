"""What a truth script prints when it is done: the native allocator's own account of the run, as one line of JSON.

Addresses are left out: they differ between any two machines. Everything else follows from the sequence of requests.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter

# cuDNN is no part of the stand-in, so neither side may take it.
os.environ.setdefault("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1")

import torch

torch.backends.cudnn.enabled = False

# From torch.cuda.memory_stats: name in the record -> key there.
STATISTICS = {
    "allocated_peak": "allocated_bytes.all.peak",
    "allocated_end": "allocated_bytes.all.current",
    "active_peak": "active_bytes.all.peak",
    "requested_peak": "requested_bytes.all.peak",
    "reserved_peak": "reserved_bytes.all.peak",
    "reserved_end": "reserved_bytes.all.current",
    "allocations": "allocation.all.allocated",
    "allocations_large": "allocation.large_pool.allocated",
    "segments_made": "segment.all.allocated",
    "segments_freed": "segment.all.freed",
    "segments_peak": "segment.all.peak",
    "inactive_split_peak": "inactive_split_bytes.all.peak",
    "retries": "num_alloc_retries",
    "out_of_memory": "num_ooms",
}


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def limit_to(bytes_allowed: int) -> None:
    """torch frees its cached memory and tries again when more than this would be reserved."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.memory.set_per_process_memory_fraction(bytes_allowed / total)


def start() -> None:
    torch.cuda.init()
    torch.cuda.memory._record_memory_history(context=None)


def segments(snapshot: dict) -> list[list[object]]:
    rows = [
        [
            list(segment["segment_pool_id"]) != [0, 0],
            segment["stream"] != 0,
            segment["total_size"],
            [[block["size"], block["requested_size"], block["state"]] for block in segment["blocks"]],
        ]
        for segment in snapshot["segments"]
    ]
    return sorted(rows, key=json.dumps)


def print_figures() -> None:
    torch.cuda.synchronize()
    statistics = torch.cuda.memory_stats()
    snapshot = torch.cuda.memory._snapshot()
    requests = [entry["size"] for entry in snapshot["device_traces"][0] if entry["action"] == "alloc"]
    rows = segments(snapshot)
    figures: dict[str, object] = {name: statistics[key] for name, key in STATISTICS.items()}
    figures["segment_sizes"] = [[size, count] for size, count in sorted(Counter(row[2] for row in rows).items())]
    figures["blocks"] = digest(rows)
    # Bytes requested by power of two: where the digests of two runs differ, this says at which sizes.
    by_size = Counter(1 << max(size - 1, 0).bit_length() for size in requests)
    figures["requests_by_size"] = [[size, count] for size, count in sorted(by_size.items())]
    figures["requests"] = digest(requests)
    print(json.dumps(figures))
