"""Training steps of a transformers Llama of four layers, of LoRA adapters on it, and what hooks see of them."""

from __future__ import annotations

import pytest
import torch
from models import llama, train
from scenario import scenario
from torch.nn.attention import SDPBackend, sdpa_kernel

import sim



def steady(peaks: list[int]) -> None:
    """The first step makes the optimizer's state; from then on each step needs the same."""
    assert len(peaks) == 5
    assert peaks[0] <= peaks[1]
    assert len(set(peaks[1:])) == 1


@scenario()
def test_eager_attention() -> None:
    steady(train(llama()))
    assert sim.launches("gemm") + sim.launches("Matmul") > 100
    assert torch.cuda.memory_stats()["num_ooms"] == 0


@scenario()
def test_bfloat16_autocast() -> None:
    steady(train(llama(), amp=True))


@scenario()
def test_sdpa_math() -> None:
    with sdpa_kernel(SDPBackend.MATH):
        steady(train(llama("sdpa")))


@pytest.mark.parametrize("reentrant", [False, True])
@scenario()
def test_checkpoints(reentrant: bool) -> None:
    plain = train(llama(layers=4))
    model = llama(layers=4)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    model.enable_input_require_grads()
    model.train()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    checkpointed = train(model)
    steady(checkpointed)
    assert checkpointed[-1] - before < plain[-1]


@scenario()
def test_save_on_cpu() -> None:
    model = llama()
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        steady(train(model))
    assert sim.host_used_bytes() > 0


@scenario()
def test_saved_tensor_hooks() -> None:
    weight = torch.randn(1000, 1000).cuda().requires_grad_()
    packed: list[int] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor.nbytes)
        return tensor.cpu()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor.cuda()):
        loss = (torch.relu(weight * weight).exp() * weight).sum()
    loss.backward()
    assert sum(packed) >= 4 * weight.nbytes
    assert weight.grad is not None


@scenario()
def test_lora() -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    wanted = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = peft.get_peft_model(llama().to(torch.bfloat16), wanted)
    peaks = train(model)
    assert len(peaks) == 5
    assert peaks[-1] < train(llama())[-1]


@scenario(REPRIEVE_SIM_MODE="lazy")
def test_lazy_mode() -> None:
    steady(train(llama(layers=2)))
    assert sim.faults() == []


@scenario(fresh=True, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
def test_expandable_segments() -> None:
    steady(train(llama()))
    segments = torch.cuda.memory_snapshot()
    assert any(segment["is_expandable"] for segment in segments)


@scenario(fresh=True, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
def test_cuda_malloc_async() -> None:
    assert torch.cuda.get_allocator_backend() == "cudaMallocAsync"
    steady(train(llama()))
