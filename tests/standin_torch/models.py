"""The small Llama of the tests, and a few training steps of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
# Imported here, once, and not in every process that a test forks.
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

VOCABULARY = 1000


def llama(attention: str = "eager", layers: int = 4, **more: Any) -> Any:
    config = LlamaConfig(
        hidden_size=128,
        num_hidden_layers=layers,
        intermediate_size=352,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=VOCABULARY,
        attn_implementation=attention,
        use_cache=False,
        **more,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).cuda()


def tokens(step: int, batch: int = 2, length: int = 96) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(step)).cuda()


def train(model: Any, steps: int = 5, amp: bool = False, lengths: tuple[int, ...] = (96,)) -> list[int]:
    """Returns the peak of allocated bytes of each step."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    peaks = []
    for step in range(steps):
        torch.cuda.reset_peak_memory_stats()
        batch = tokens(step, length=lengths[step % len(lengths)])
        with torch.autocast("cuda", torch.bfloat16, enabled=amp):
            loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        peaks.append(torch.cuda.max_memory_allocated())
    return peaks
