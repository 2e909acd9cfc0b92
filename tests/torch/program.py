"""A random program of what a torch program may ask of an allocator, the same for every allocator that runs it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from facts import counters, empty, live

Found = list[tuple[str, Any]]


class Program:
    """Each step is chosen by the seed alone, never by an answer of the allocator."""

    def __init__(self, seed: int, *, large: bool) -> None:
        self._choose = random.Random(seed)
        self._large = large
        self._held: list[torch.Tensor] = []
        self._streams = [torch.cuda.default_stream(), *(torch.cuda.Stream() for _ in range(3))]
        self._pools: list[torch.cuda.MemPool] = []
        self._graphs: list[tuple[torch.cuda.CUDAGraph, list[torch.Tensor]]] = []
        self._steps: list[tuple[int, Callable[[], Any]]] = [
            (40, self.allocate),
            (35, self.free),
            (8, self.record),
            (3, self.empty_cache),
            (2, self.new_pool),
            (6, self.allocate_in_pool),
            (1, self.drop_pool),
            (3, self.capture),
            (4, self.replay),
            (1, self.drop_graph),
            (3, self.reset_peaks),
            (1, self.reset_accumulated),
            (3, self.raw),
            (3, self.look),
        ]

    def run(self, steps: int) -> Found:
        weights = [weight for weight, _ in self._steps]
        found: Found = []
        for _ in range(steps):
            step = self._choose.choices(self._steps, weights)[0][1]
            answer = step()
            figures = counters(exact=not self._large)
            # When an allocator looks whether other streams are done with a freed block is its policy; these figures
            # wait for that, and are compared when a synchronization and empty_cache have settled them.
            figures = {name: value for name, value in figures.items() if not name.startswith(("active", "requested"))}
            found.append((step.__name__, (answer, figures)))
        return found

    def _size(self) -> int:
        return int(2 ** self._choose.uniform(0, 25 if self._large else 20))

    def _pick(self, among: list[Any]) -> int | None:
        return self._choose.randrange(len(among)) if among else None

    def allocate(self) -> None:
        with torch.cuda.stream(self._choose.choice(self._streams)):
            self._held.append(empty(self._size()))

    def free(self) -> None:
        if (index := self._pick(self._held)) is not None:
            del self._held[index]

    def record(self) -> None:
        if (index := self._pick(self._held)) is not None:
            self._held[index].record_stream(self._choose.choice(self._streams))

    def empty_cache(self) -> dict[str, int]:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        stats = torch.cuda.memory_stats()
        return {name: stats[name] for name in ("active.all.current", "requested_bytes.all.current")}

    def new_pool(self) -> None:
        if len(self._pools) < 3:
            self._pools.append(torch.cuda.MemPool())

    def allocate_in_pool(self) -> int | None:
        if (index := self._pick(self._pools)) is None:
            return None
        with torch.cuda.use_mem_pool(self._pools[index]):
            self._held.append(empty(self._size()))
        return self._pools[index].use_count()

    def drop_pool(self) -> None:
        if (index := self._pick(self._pools)) is not None:
            del self._pools[index]

    def capture(self) -> None:
        graph = torch.cuda.CUDAGraph()
        kept = []
        with torch.cuda.graph(graph):
            for _ in range(self._choose.randrange(1, 5)):
                kept.append(empty(self._size()))
                if self._choose.random() < 0.3:
                    kept.pop()
        self._graphs.append((graph, kept))

    def replay(self) -> None:
        if (index := self._pick(self._graphs)) is not None:
            self._graphs[index][0].replay()

    def drop_graph(self) -> None:
        if (index := self._pick(self._graphs)) is not None:
            del self._graphs[index]

    def reset_peaks(self) -> None:
        torch.cuda.reset_peak_memory_stats()

    def reset_accumulated(self) -> None:
        torch.cuda.reset_accumulated_memory_stats()

    def raw(self) -> int:
        address = torch.cuda.caching_allocator_alloc(self._size())
        torch.cuda.caching_allocator_delete(address)
        return address % 512

    def look(self) -> list[tuple[int, str]]:
        return [(size, state) for size, state, _ in live(torch.cuda.memory_snapshot()) if state == "active_allocated"]


def run_program(seed: int, steps: int, large: bool) -> Found:
    return Program(seed, large=large).run(steps)
