"""However a process ends: exit code 0 and not a word, with everything alive that can be."""

from __future__ import annotations

import pytest
from pair import script

BEGIN = """
import atexit, gc, os, sys, threading, torch, reprieve
reprieve.install()
def empty(n): return torch.empty(n, dtype=torch.uint8, device="cuda")
side = torch.cuda.Stream()
"""

ENDS = {
    "live tensors": """
kept = [empty(n) for n in (10, 5 << 20)]
kept[1].record_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    inside = kept[0].clone()
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    kept.append(empty(1000))
class Cycle: pass
cycle = Cycle(); cycle.itself = cycle; cycle.tensor = empty(100)
torch.cuda.memory._record_memory_history(stacks="python")
torch._C._cuda_attach_out_of_memory_observer(lambda *a: None)
atexit.register(lambda: kept.append(empty(2000)))
sys.modules["kept"] = kept
""",
    "os._exit": """
kept = empty(3 << 20)
os._exit(0)
""",
    "sys.exit in the middle of work": """
kept = empty(3 << 20)
def deep(n): return deep(n - 1) if n else sys.exit(0)
deep(50)
""",
    "daemon threads that allocate": """
started = [threading.Event() for _ in range(4)]
def work(event):
    while True:
        held = [empty(1000) for _ in range(10)]
        event.set()
for event in started:
    threading.Thread(target=work, args=(event,), daemon=True).start()
for event in started:
    event.wait()
""",
}


@pytest.mark.parametrize("name", ENDS)
def test_quiet_end(name: str) -> None:
    ended = script(BEGIN + ENDS[name])
    assert (ended.status, ended.output) == (0, "")


def test_an_exception_ends_the_program_as_ever() -> None:
    ended = script(BEGIN + "kept = empty(10)\natexit.register(lambda: kept.fill_(1))\nraise KeyError('of the user')")
    assert ended.status == 1
    assert ended.output.strip().endswith("KeyError: 'of the user'")
    assert ended.output.count("Traceback") == 1
