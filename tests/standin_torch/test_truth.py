"""The native allocator's own figures on the stand-in are those of an H200, for five scripts and the same capacity.

The record is truth/h200.json, made by truth/record_truth.py. Requests must be the same, one by one, and so must what
torch made of them, with one exception: of two free blocks of one size torch takes that at the lower address, and where
segments lie is the driver's affair. So which block of several equal ones is split may differ, and with it what is left
over in them (`blocks`, `inactive_split_peak`). INEXACT says by how much, and where data decide what is requested.
"""

from __future__ import annotations

import importlib.metadata
import json
import pathlib

import pytest
import record_truth

HERE = pathlib.Path(__file__).parent
RECORD = HERE / "truth" / "h200.json"

# By script and figure: the largest difference, as a part of what the H200 had. None: not compared.
BY_ADDRESS: dict[str, float | None] = {"inactive_split_peak": 0.10, "blocks": None}
# transformers asks the device whether a batch is packed, and makes a larger mask where it is. Kernels that compute the
# answer have no effect here, so memory that was used before may answer for one of the steps.
BY_DATA: dict[str, float | None] = {
    "allocations": 0.01,
    "allocations_large": 0.01,
    "requests": None,
    "requests_by_size": None,
    "segment_sizes": None,
    **{f"{kind}_peak": 0.01 for kind in ("allocated", "active", "requested", "reserved")},
    "reserved_end": 0.01,
    "segments_made": 0.03,
    "segments_peak": 0.03,
}
INEXACT = {"llama": BY_ADDRESS, "resnet50": BY_ADDRESS, "lora": BY_ADDRESS | BY_DATA}

if not RECORD.exists():
    pytest.skip("no record of an H200 (truth/h200.json)", allow_module_level=True)
record = json.loads(RECORD.read_text(encoding="utf-8"))
if record["versions"]["torch"].split("+")[0] != importlib.metadata.version("torch").split("+")[0]:
    pytest.skip(f"the record is of torch {record['versions']['torch']}", allow_module_level=True)


@pytest.mark.parametrize("name", list(record["figures"]))
def test_figures(name: str, folder: pathlib.Path) -> None:
    capacity = str(record["machine"]["total_memory"])
    wanted = record["figures"][name]
    found = record_truth.figures(name, [], folder, REPRIEVE_SIM_CAPACITY=capacity)
    differences = []
    for figure, value in wanted.items():
        tolerance = INEXACT.get(name, {}).get(figure, 0.0)
        if tolerance is None or found[figure] == value:
            continue
        if not tolerance or abs(found[figure] - value) > tolerance * value:
            differences.append(f"{figure}: {value} on the H200, {found[figure]} here")
    for package, version in record["versions"].items():
        if package in record_truth.PACKAGES and differences and importlib.metadata.version(package) != version:
            differences.append(f"{package} is {importlib.metadata.version(package)} here and was {version} there")
    assert not differences, "\n".join(differences)
