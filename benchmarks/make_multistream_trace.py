#!/usr/bin/env python3
"""Writes benchmarks/traces/multistream-fsdp.csv.gz: what one rank of a sharded training run asks of its allocator.

The recorded traces have one stream. This one is made up after how FSDP works, so that replays meet several streams,
record_stream and frees on another stream than the allocation's:

  stream 0  compute: activations, gradients, the optimizer's temporaries
  stream 1  all-gather: a layer's unsharded parameters, used on stream 0
  stream 2  reduce-scatter: reads a layer's gradients of stream 0, leaves their shard to the optimizer on stream 0
  stream 3  offload: copies some activations to the host in the forward pass, and back for the backward pass

The length of the batch's sequences changes from step to step. The output is the same bytes on every run.
"""

from __future__ import annotations

import argparse
import gzip
import random
from pathlib import Path

COMPUTE, GATHER, SCATTER, OFFLOAD = range(4)

SEED = 20_260
STEPS = 28
LAYERS = 24
RANKS = 8
HIDDEN = 2048
FEED_FORWARD = 5632
VOCABULARY = 32_000
GATHERS_IN_FLIGHT = 2  # FSDP's rate limiter: unsharded layers alive at once
OFFLOADED_EVERY = 3  # each third layer's largest activations travel

BF16, FP32 = 2, 4
LAYER_PARAMETERS = 4 * HIDDEN * HIDDEN + 3 * HIDDEN * FEED_FORWARD + 2 * HIDDEN
EMBEDDING_PARAMETERS = VOCABULARY * HIDDEN


def shard(parameters: int) -> int:
    """Parameters on one rank."""
    return -(-parameters // RANKS)


class Recorder:
    """Lines of a trace, with ids and a clock."""

    def __init__(self, rng: random.Random) -> None:
        self.lines = ["# op,id,bytes,stream,time_us   op: a=alloc f=free r=record_stream; bytes as requested"]
        self._rng = rng
        self._next_id = 0
        self._time_us = 0

    def work(self, microseconds: int) -> None:
        """Host time until the next event: about that much."""
        self._time_us += microseconds // 2 + int(self._rng.random() * microseconds)

    def alloc(self, size: int, stream: int) -> int:
        block = self._next_id
        self._next_id += 1
        self._line("a", block, size, stream)
        return block

    def record(self, block: int, stream: int) -> None:
        self._line("r", block, 0, stream)

    def free(self, block: int, stream: int) -> None:
        """Frees a block last used on `stream`."""
        self._line("f", block, "", stream)

    def _line(self, op: str, block: int, size: int | str, stream: int) -> None:
        if len(self.lines) > 1:
            self.work(12)
        self.lines.append(f"{op},{block},{size},{stream},{self._time_us}")


class Run:
    """The training run: a recorder, and the blocks that live from one phase to another."""

    def __init__(self) -> None:
        self.rng = random.Random(SEED)
        self.out = Recorder(self.rng)
        self.gathered: dict[int, int] = {}  # layer -> unsharded parameters
        self.saved: dict[int, list[int]] = {}  # layer -> activations for the backward pass
        self.offloaded: dict[int, list[int]] = {}  # layer -> sizes that are on the host
        self.gradient_shards: list[int] = []

    # Parameters ---------------------------------------------------------------------------------------------------

    def build(self) -> None:
        for parameters in [EMBEDDING_PARAMETERS] + [LAYER_PARAMETERS] * LAYERS:
            self.out.work(4_000)
            # fp32 master weights, and AdamW's two moments.
            for _ in range(3):
                self.out.alloc(shard(parameters) * FP32, COMPUTE)

    def gather(self, layer: int) -> None:
        if not 0 <= layer < LAYERS or layer in self.gathered:
            return
        send = self.out.alloc(shard(LAYER_PARAMETERS) * BF16, GATHER)
        self.gathered[layer] = self.out.alloc(shard(LAYER_PARAMETERS) * RANKS * BF16, GATHER)
        self.out.free(send, GATHER)

    def reshard(self, layer: int) -> None:
        # Both ways are in use: the block is recorded on the stream that used it and freed on its own, or it is freed
        # on the stream that used it.
        unsharded = self.gathered.pop(layer)
        if layer % 2 == 0:
            self.out.record(unsharded, COMPUTE)
            self.out.free(unsharded, GATHER)
        else:
            self.out.free(unsharded, COMPUTE)

    # One step -----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        tokens = 64 * (24 + int(self.rng.random() * 41))
        inputs = self.out.alloc(tokens * 8, COMPUTE)
        hidden = self.out.alloc(tokens * HIDDEN * BF16, COMPUTE)
        for layer in range(LAYERS):
            for ahead in range(GATHERS_IN_FLIGHT):
                self.gather(layer + ahead)
            self.forward(layer, tokens)
            # The last layer's parameters stay: the backward pass begins with it.
            if layer != LAYERS - 1:
                self.reshard(layer)
        self.loss(tokens)
        for layer in reversed(range(LAYERS)):
            for ahead in range(GATHERS_IN_FLIGHT):
                self.gather(layer - ahead)
            self.fetch(layer - 1)
            self.backward(layer, tokens)
            self.reshard(layer)
        self.out.free(hidden, COMPUTE)
        self.out.free(inputs, COMPUTE)
        self.optimize()

    def forward(self, layer: int, tokens: int) -> None:
        out = self.out
        wide, narrow = tokens * FEED_FORWARD * BF16, tokens * HIDDEN * BF16
        saved = []
        for size in (narrow, 3 * narrow, narrow, tokens * 16 * FP32):  # norm, qkv, attention, its log-sum-exp
            saved.append(out.alloc(size, COMPUTE))
            out.work(180)
        projected = out.alloc(narrow, COMPUTE)
        out.work(120)
        saved.append(out.alloc(narrow, COMPUTE))  # residual sum
        out.free(projected, COMPUTE)
        large = [out.alloc(wide, COMPUTE), out.alloc(wide, COMPUTE)]  # gate, up
        out.work(300)
        product = out.alloc(wide, COMPUTE)
        down = out.alloc(narrow, COMPUTE)
        out.work(300)
        saved.append(out.alloc(narrow, COMPUTE))
        out.free(down, COMPUTE)
        out.free(product, COMPUTE)
        if layer % OFFLOADED_EVERY == 0:
            # The copy to the host reads them on its own stream; their memory is free when it has ended.
            for block in large:
                out.record(block, OFFLOAD)
                out.free(block, COMPUTE)
            self.offloaded[layer] = [wide, wide]
        else:
            saved += large
        self.saved[layer] = saved

    def loss(self, tokens: int) -> None:
        out = self.out
        logits = out.alloc(tokens * VOCABULARY * BF16, COMPUTE)
        out.work(900)
        upcast = out.alloc(tokens * VOCABULARY * FP32, COMPUTE)
        scalar = out.alloc(4, COMPUTE)
        out.work(700)
        gradient = out.alloc(tokens * VOCABULARY * BF16, COMPUTE)
        out.free(upcast, COMPUTE)
        out.free(logits, COMPUTE)
        out.work(900)
        out.free(gradient, COMPUTE)
        out.free(scalar, COMPUTE)

    def fetch(self, layer: int) -> None:
        """Brings a layer's offloaded activations back, ahead of its backward pass."""
        for size in self.offloaded.pop(layer, []):
            self.saved[layer].append(self.out.alloc(size, OFFLOAD))

    def backward(self, layer: int, tokens: int) -> None:
        out = self.out
        self.fetch(layer)
        wide, narrow = tokens * FEED_FORWARD * BF16, tokens * HIDDEN * BF16
        running = out.alloc(narrow, COMPUTE)
        gradient = out.alloc(LAYER_PARAMETERS * BF16, COMPUTE)
        for block in reversed(self.saved.pop(layer)):
            flowing = out.alloc(wide if self.rng.random() < 0.4 else narrow, COMPUTE)
            out.work(260)
            # What came back from the host belongs to stream 3 and was last used here.
            out.free(block, COMPUTE)
            out.free(running, COMPUTE)
            running = flowing
        out.free(running, COMPUTE)
        if self.rng.random() < 0.5:
            workspace = out.alloc(8 << 20, COMPUTE)
            out.work(80)
            out.free(workspace, COMPUTE)
        # The reduce-scatter reads the gradient on its stream; the shard is used on stream 0 by the optimizer.
        out.record(gradient, SCATTER)
        piece = out.alloc(shard(LAYER_PARAMETERS) * BF16, SCATTER)
        out.free(gradient, COMPUTE)
        self.gradient_shards.append(out.alloc(shard(LAYER_PARAMETERS) * FP32, SCATTER))
        out.free(piece, SCATTER)

    def optimize(self) -> None:
        out = self.out
        norms = [out.alloc(4, COMPUTE) for _ in self.gradient_shards]
        out.work(2_000)
        total = out.alloc(4 * len(norms), COMPUTE)
        for norm in norms:
            out.free(norm, COMPUTE)
        for gradient in self.gradient_shards:
            denominator = out.alloc(shard(LAYER_PARAMETERS) * FP32, COMPUTE)
            out.work(150)
            out.free(denominator, COMPUTE)
            out.free(gradient, COMPUTE)
        out.free(total, COMPUTE)
        self.gradient_shards.clear()


def csv() -> bytes:
    """The trace's text."""
    run = Run()
    run.build()
    for _ in range(STEPS):
        run.step()
    return ("\n".join(run.out.lines) + "\n").encode()


def main() -> None:
    default = Path(__file__).parent / "traces" / "multistream-fsdp.csv.gz"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?", type=Path, default=default)
    # No time and no file name in the header: the same text is the same file.
    parser.parse_args().output.write_bytes(gzip.compress(csv(), compresslevel=9, mtime=0))


if __name__ == "__main__":
    main()
