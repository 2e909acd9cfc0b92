"""A recorded training job, replayed on `native`: torch's own reserved peak. Needs a GPU and torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")
if not torch.cuda.is_available():
    pytest.skip("no GPU that torch can use here", allow_module_level=True)

# Sequences of every length, so that blocks are split, merged and cached; the losses go to stdout, the peak to a file.
JOB = """
import random, sys, torch
torch.manual_seed(1)
random.seed(1)
layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.1)
model = torch.nn.TransformerEncoder(layer, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(25):
    batch = torch.randn(random.randint(1, 16), random.randint(16, 768), 512, device="cuda")
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
torch.cuda.synchronize()
print("done")
with open(sys.argv[1], "w") as file:
    file.write(str(torch.cuda.max_memory_reserved()))
"""


def reprieve(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "reprieve", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


@pytest.mark.parametrize(
    ("conf", "policy"), [("", "native"), ("max_split_size_mb:64", "native"), ("expandable_segments:True", "expandable")]
)
def test_the_model_reserves_what_torch_reserved(tmp_path: Path, conf: str, policy: str) -> None:
    job, peak, file = tmp_path / "job.py", tmp_path / "peak", tmp_path / "run.pickle.gz"
    job.write_text(JOB)
    recorded = reprieve("record", "-o", file, "--", sys.executable, job, peak, PYTORCH_CUDA_ALLOC_CONF=conf)
    assert recorded.returncode == 0, recorded.stderr
    assert recorded.stdout == "done\n" and f"reprieve replay {file}" in recorded.stderr
    reserved = int(peak.read_text())
    replayed = reprieve("replay", "--json", "--policy", policy, "--capacity", "141GiB", file)
    assert replayed.returncode == 0, replayed.stderr
    row: dict[str, Any] = json.loads(replayed.stdout)[0]
    print(f"{policy} {conf}: torch {reserved}, model {row['peak_reserved_bytes']}, {row['events']} events")
    assert row["completed"] and row["snapshot"]["initial_blocks"] == 0
    assert row["snapshot"]["recorded_peak_reserved_bytes"] == reserved
    assert abs(row["peak_reserved_bytes"] - reserved) <= 0.02 * reserved
    assert any("job.py:" in group["name"] for group in row["snapshot"]["peak"]["by_frame"])
