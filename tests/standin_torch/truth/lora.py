"""Adapts a Llama in bfloat16 with PEFT's LoRA, layers checkpointed, attention by matrix products."""

from figures import print_figures, start

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM


def main() -> None:
    start()
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=512,
        num_hidden_layers=4,
        intermediate_size=1376,
        num_attention_heads=8,
        num_key_value_heads=8,
        vocab_size=4000,
        attn_implementation="eager",
        use_cache=False,
    )
    base = LlamaForCausalLM(config).to("cuda", torch.bfloat16)
    base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    base.enable_input_require_grads()
    wanted = LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = get_peft_model(base, wanted)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    lengths = torch.randint(100, 900, (6,), generator=torch.Generator().manual_seed(2)).tolist()
    for step, length in enumerate(lengths):
        tokens = torch.randint(0, 4000, (2, length), generator=torch.Generator().manual_seed(step)).cuda()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    print_figures()


if __name__ == "__main__":
    main()
