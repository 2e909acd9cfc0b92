"""What two allocators must agree on: figures that no policy of caching, splitting or rounding enters into."""

from __future__ import annotations

from typing import Any

import torch

# Blocks of up to this size both allocators cut to multiples of 512 bytes. Of larger ones torch's own leaves up to 1 MiB
# with the block, so that allocated and active bytes are a matter of its policy.
EXACT_UP_TO = 1 << 20

_COUNTS = ("allocation.", "active.", "requested_bytes.")
_BYTES = ("allocated_bytes.", "active_bytes.")


def empty(bytes_: int, device: int | str = "cuda") -> torch.Tensor:
    return torch.empty(bytes_, dtype=torch.uint8, device=device)


def counters(*, exact: bool = False, by_size: bool = False, device: int = 0) -> dict[str, int]:
    """Of memory_stats(); with `exact`, the bytes of blocks too, for programs whose blocks are all small."""
    kinds = _COUNTS + _BYTES if exact else _COUNTS
    stats = torch.cuda.memory_stats(device)
    wanted = {name for name in stats if name.startswith(kinds) and (by_size or ".all." in name)}
    return {name: stats[name] for name in stats if name in wanted or name == "num_ooms"}


def used(device: int = 0) -> int:
    """Bytes that the driver has given out."""
    free, total = torch.cuda.mem_get_info(device)
    return total - free


def live(segments: list[dict[str, Any]]) -> list[tuple[int, str, int]]:
    """Requested size, state and stream of the blocks in use, in order of size."""
    return sorted(
        (block["requested_size"], block["state"], segment["stream"])
        for segment in segments
        for block in segment["blocks"]
        if block["state"] != "inactive"
    )
