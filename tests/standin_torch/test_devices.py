"""Devices as torch and NVML report them, and moving tensors between them."""

from __future__ import annotations

import pytest
import torch
from scenario import scenario

import sim

CAPACITY = 8 << 30


@scenario(REPRIEVE_SIM_DEVICES="2", REPRIEVE_SIM_CAPACITY=str(CAPACITY))
def test_two_devices() -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 2
    for device in range(2):
        assert torch.cuda.get_device_capability(device) == (9, 0)
        assert torch.cuda.get_device_properties(device).total_memory == CAPACITY
        assert torch.cuda.get_device_properties(device).multi_processor_count == 132
    kept = torch.empty(1 << 20, device="cuda:1")
    assert torch.cuda.memory_allocated(1) == 4 << 20
    assert torch.cuda.memory_allocated(0) == 0
    free, total = torch.cuda.mem_get_info(1)
    assert total == CAPACITY
    assert total - free == sim.used_bytes(1) >= 4 << 20
    assert kept.device.index == 1


@scenario(REPRIEVE_SIM_DEVICES="2")
def test_copies_between_devices() -> None:
    assert torch.cuda.can_device_access_peer(0, 1)
    host = torch.randn(100_000)
    there = host.to("cuda:0")
    assert torch.equal(there.to("cuda:1").to("cpu"), host)
    other = torch.empty(100_000, device="cuda:1")
    other.copy_(there, non_blocking=True)
    torch.cuda.synchronize(1)
    assert torch.equal(other.cpu(), host)


@scenario(REPRIEVE_SIM_CAPABILITY="8.0")
def test_capability_is_an_option() -> None:
    assert torch.cuda.get_device_capability() == (8, 0)


@scenario(REPRIEVE_SIM_DEVICES="2", REPRIEVE_SIM_CAPACITY=str(CAPACITY))
def test_nvml() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 2
    handle = pynvml.nvmlDeviceGetHandleByIndex(1)
    assert pynvml.nvmlDeviceGetMemoryInfo(handle).total == CAPACITY
    before = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used
    kept = torch.empty(64 << 20, dtype=torch.uint8, device="cuda:1")
    assert pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used - before == kept.nbytes
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    assert uuid == f"GPU-{torch.cuda.get_device_properties(1).uuid}"
    assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(uuid)) == 1
    bus = pynvml.nvmlDeviceGetPciInfo(handle).busId
    assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByPciBusId(bus)) == 1
    assert pynvml.nvmlDeviceGetCudaComputeCapability(handle) == (9, 0)
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(handle) == []
    assert pynvml.nvmlSystemGetDriverVersion()
    assert pynvml.nvmlDeviceGetName(handle) == torch.cuda.get_device_name(1)
    assert torch.cuda.utilization(1) == 0
    assert torch.cuda.list_gpu_processes(1).endswith("no processes are running")


@scenario(CUDA_VISIBLE_DEVICES="", REPRIEVE_SIM_DEVICES="2")
def test_no_visible_device() -> None:
    assert not torch.cuda.is_available()
    assert torch.cuda.device_count() == 0
