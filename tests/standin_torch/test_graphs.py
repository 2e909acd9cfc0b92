"""CUDA graphs: captured copies are replayed, memory comes from private pools, illegal calls are refused."""

from __future__ import annotations

import pytest
import torch
from scenario import scenario


def full(value: float) -> torch.Tensor:
    return torch.full((1000,), value)


@scenario()
def test_replay() -> None:
    source = full(1).cuda()
    copied = torch.empty_like(source)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        copied.copy_(source)
        cloned = source.clone()
    for value in (3.0, 4.0):
        source.copy_(full(value))
        graph.replay()
        assert copied.tolist() == cloned.tolist() == full(value).tolist()
    pools = {tuple(segment["segment_pool_id"]) for segment in torch.cuda.memory_snapshot()}
    assert tuple(graph.pool()) in pools


@scenario()
def test_graph_with_a_second_stream() -> None:
    source = full(1).cuda()
    first, second = torch.empty_like(source), torch.empty_like(source)
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first.copy_(source)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            second.copy_(first)
        torch.cuda.current_stream().wait_stream(side)
    source.copy_(full(8))
    graph.replay()
    assert second.tolist() == full(8).tolist()


@scenario()
def test_graphed_callables() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16)).cuda()
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(4, 16).cuda(),))
    for _ in range(3):
        graphed(torch.randn(4, 16).cuda()).sum().backward()
    assert model[0].weight.grad.shape == (32, 16)


@pytest.mark.parametrize("call", ["synchronize", "item", "event_query", "pageable_copy"])
@scenario()
def test_calls_that_are_illegal_in_a_capture(call: str) -> None:
    tensor = full(1).cuda()
    event = torch.cuda.Event()
    event.record()
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="(?i)captur"):
        with torch.cuda.graph(graph):
            if call == "synchronize":
                torch.cuda.synchronize()
            elif call == "item":
                tensor[0].item()
            elif call == "event_query":
                event.query()
            else:
                tensor.cpu()
    torch.cuda.synchronize()
    assert tensor.cpu().tolist() == full(1).tolist()


@scenario()
def test_unjoined_stream() -> None:
    side = torch.cuda.Stream()
    tensor = full(1).cuda()
    with pytest.raises(RuntimeError, match="(?i)unjoined"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                tensor.clone()
