"""Random programs on both allocators: every figure that policy does not enter must agree after each step.

REPRIEVE_TEST_SEED repeats one program; a failure names its seed.
"""

from __future__ import annotations

import os
import random

import pytest
from pair import NATIVE, REPRIEVE, differences, found, run
from program import run_program

STEPS = 300
_given = os.environ.pop("REPRIEVE_TEST_SEED", None)
SEEDS = [int(_given)] if _given else [1, 2, random.SystemRandom().randrange(1 << 32)]


@pytest.mark.parametrize("large", [False, True], ids=["small blocks", "all sizes"])
@pytest.mark.parametrize("which", range(len(SEEDS)))
def test_random_program(which: int, large: bool) -> None:
    seed = SEEDS[which]
    print(f"REPRIEVE_TEST_SEED={seed}")
    given = {"seed": seed, "steps": STEPS, "large": large}
    native = found(run(run_program, given), NATIVE)
    ours = found(run(run_program, given, options={}), REPRIEVE)
    for step, (one, other) in enumerate(zip(native, ours)):
        lines = list(differences(one, other))
        assert not lines, f"seed {seed}, step {step} ({one[0]}):\n" + "\n".join(lines[:20])
    assert len(native) == len(ours) == STEPS
