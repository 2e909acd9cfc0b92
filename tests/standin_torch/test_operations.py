"""What torch's operators do on the stand-in: most run and take their time, some cannot, and say so."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from scenario import scenario
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import sim


@scenario()
def test_linear_layers() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 8)).to("cuda", dtype)
        model(torch.randn(32, 64).to("cuda", dtype)).sum().backward()
        assert model[0].weight.grad.shape == (128, 64)
    before = sim.launches("cublas")
    torch.bmm(torch.randn(3, 4, 5).cuda(), torch.randn(3, 5, 6).cuda())
    torch.mv(torch.randn(4, 5).cuda(), torch.randn(5).cuda())
    torch.dot(torch.randn(5).cuda(), torch.randn(5).cuda())
    torch.mm(torch.randn(4, 5, dtype=torch.complex64).cuda(), torch.randn(5, 6, dtype=torch.complex64).cuda())
    assert sim.launches("cublas") == before + 4


@scenario()
def test_float8_product() -> None:
    a = torch.zeros(32, 64).to(torch.float8_e4m3fn).cuda()
    b = torch.zeros(32, 64).to(torch.float8_e4m3fn).cuda().t()
    scale = torch.ones(()).cuda()
    assert torch._scaled_mm(a, b, scale, scale, out_dtype=torch.bfloat16).shape == (32, 32)


@pytest.mark.parametrize("backend", ["MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION"])
@scenario()
def test_attention(backend: str) -> None:
    query = torch.randn(2, 4, 128, 64).cuda().bfloat16().requires_grad_()
    with sdpa_kernel(getattr(SDPBackend, backend)):
        F.scaled_dot_product_attention(query, query, query, is_causal=True).sum().backward()
    assert query.grad is not None
    with pytest.raises(RuntimeError), sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        F.scaled_dot_product_attention(query, query, query, is_causal=True)


@scenario()
def test_layers() -> None:
    x = torch.randn(8, 128, 256).cuda().requires_grad_()
    nn.LayerNorm(256).cuda()(x).sum().backward()
    nn.RMSNorm(256).cuda()(x).sum().backward()
    nn.Embedding(1000, 256).cuda()(torch.randint(1000, (8, 128)).cuda()).sum().backward()
    F.cross_entropy(x.view(-1, 256), torch.randint(256, (1024,)).cuda()).backward()
    F.dropout(x, 0.5).sum().backward()
    x.sort()
    x.topk(3)
    x.cumsum(0)
    torch.nn.utils.clip_grad_norm_([x], 1.0)
    torch.amp.GradScaler("cuda").scale(x.sum()).backward()


@scenario()
def test_convolution_and_batch_norm_without_cudnn() -> None:
    torch.backends.cudnn.enabled = False
    images = torch.randn(2, 3, 32, 32).cuda()
    nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).cuda()(images).sum().backward()


@scenario()
def test_optimizers() -> None:
    parameters = [nn.Parameter(torch.randn(100, 100).cuda()) for _ in range(10)]
    made = [torch.optim.AdamW(parameters, **{way: True}) for way in ("foreach", "fused", "capturable")]
    for optimizer in [*made, torch.optim.AdamW(parameters, foreach=False), torch.optim.SGD(parameters, momentum=0.9)]:
        for _ in range(2):
            for parameter in parameters:
                parameter.grad = torch.ones_like(parameter)
            optimizer.step()
            optimizer.zero_grad()


# What a user sees; docs/standin.md lists the same.
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("convolution", "CUDNN_STATUS_NOT_SUPPORTED"),
        ("fft", "cuFFT error: CUFFT_NOT_SUPPORTED"),
        ("eigh", "cusolver error"),
    ],
)
@scenario()
def test_what_cannot_run(name: str, message: str) -> None:
    matrix = torch.eye(4).cuda()
    with pytest.raises(RuntimeError, match=message):
        if name == "convolution":
            nn.Conv2d(3, 8, 3).cuda()(torch.randn(2, 3, 32, 32).cuda())
        elif name == "fft":
            torch.fft.fft(matrix)
        else:
            torch.linalg.eigh(matrix)


@scenario()
def test_profiler_counts_memory() -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True) as profiled:
        block = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
        del block
    rows = [row for row in profiled.key_averages() if row.key == "aten::empty"]
    assert rows
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    assert {event.nbytes() for event in events} >= {1 << 20, -(1 << 20)}
