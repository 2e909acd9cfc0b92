"""Copies and fills move real bytes; pinned memory is known as such."""

from __future__ import annotations

import torch
from scenario import scenario
from torch.utils.data import DataLoader, TensorDataset

import sim


@scenario()
def test_copies() -> None:
    host = torch.randn(1 << 20)
    device = torch.empty(1 << 20, device="cuda")
    device.copy_(host)
    assert torch.equal(device.cpu(), host)
    assert device[3].item() == host[3].item()
    assert device.tolist()[:4] == host.tolist()[:4]
    other = torch.empty_like(device)
    other.copy_(device)
    assert torch.equal(other.cpu(), host)
    columns = device.view(1024, 1024)[:, :512].cpu()
    assert torch.equal(columns, host.view(1024, 1024)[:, :512])
    device.zero_()
    assert device.cpu().abs().sum() == 0


@scenario()
def test_pinned_memory() -> None:
    host = torch.randn(1 << 20)
    pinned = host.pin_memory()
    assert pinned.is_pinned()
    assert not host.is_pinned()
    assert sim.host_used_bytes() >= pinned.nbytes
    device = pinned.to("cuda", non_blocking=True)
    assert torch.equal(device.cpu(), host)
    back = torch.empty(1 << 20, pin_memory=True)
    back.copy_(device, non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(back, host)


@scenario()
def test_effects_that_kernels_have() -> None:
    """Everything else that computes leaves its output as it was."""
    a = torch.full((1000,), 7.0, device="cuda")
    b = torch.arange(1000.0).cuda()
    assert a.cpu().unique().tolist() == [7.0]
    assert torch.equal((a + b).cpu(), 7 + torch.arange(1000.0))
    assert torch.equal((a * b).cpu(), 7 * torch.arange(1000.0))
    assert torch.equal((b * 2).cpu(), 2 * torch.arange(1000.0))
    assert torch.equal(torch.cat([a, b]).cpu(), torch.cat([a.cpu(), torch.arange(1000.0)]))
    assert torch.equal(b.to(torch.float64).cpu(), torch.arange(1000.0, dtype=torch.float64))
    assert sim.launches("elementwise") > 0


@scenario()
def test_fresh_memory_is_poisoned() -> None:
    assert set(torch.empty(4096, dtype=torch.uint8, device="cuda").tolist()) == {0xA5}


@scenario()
def test_data_loader_with_workers_and_pinned_memory() -> None:
    data = torch.randn(64, 10)
    loader = DataLoader(TensorDataset(data), batch_size=16, pin_memory=True, num_workers=2)
    batches = [batch[0] for batch in loader]
    assert all(batch.is_pinned() for batch in batches)
    assert torch.equal(torch.cat([batch.cuda(non_blocking=True).cpu() for batch in batches]), data)
