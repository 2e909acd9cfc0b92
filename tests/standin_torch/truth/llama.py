"""Trains a Llama of four layers on sequences of changing length, under so little memory that torch must free its cache."""

from figures import limit_to, print_figures, start

import torch
from transformers import LlamaConfig, LlamaForCausalLM

LIMIT = 600 << 20


def main() -> None:
    start()
    limit_to(LIMIT)
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=384,
        num_hidden_layers=4,
        intermediate_size=1024,
        num_attention_heads=6,
        num_key_value_heads=2,
        vocab_size=4000,
        attn_implementation="sdpa",
    )
    model = LlamaForCausalLM(config).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    lengths = torch.randint(64, 700, (8,), generator=torch.Generator().manual_seed(1)).tolist()
    for step, length in enumerate(lengths):
        tokens = torch.randint(0, 4000, (4, length), generator=torch.Generator().manual_seed(step)).cuda()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    print_figures()


if __name__ == "__main__":
    main()
