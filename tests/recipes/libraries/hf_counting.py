"""A GPT-2 of Hugging Face; as a program, it is trained by a plain loop and prints its losses."""

import json
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel

DEFAULTS = {"epochs": 4, "batch_size": 32, "learning_rate": 0.01}


def model() -> GPT2LMHeadModel:
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=16,
        n_positions=8,
        n_embd=16,
        n_layer=1,
        n_head=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    return GPT2LMHeadModel(config)


def datasets() -> Any:
    samples = [{"input_ids": torch.arange(n % 9, n % 9 + 2 + n % 6)} for n in range(32)]
    return samples, samples[:8]


def collate(samples: Any) -> dict[str, torch.Tensor]:
    inputs = [sample["input_ids"] for sample in samples]
    pad = torch.nn.utils.rnn.pad_sequence
    padded = pad(inputs, batch_first=True)
    mask = pad([torch.ones_like(each) for each in inputs], batch_first=True)
    return {
        "input_ids": padded,
        "attention_mask": mask,
        "labels": padded.masked_fill(mask == 0, -100),
    }


def optimizer(parameters: Any, learning_rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, learning_rate, momentum=0.9)


if __name__ == "__main__":
    trained = model()
    steps = optimizer(trained.parameters(), DEFAULTS["learning_rate"])
    losses = []
    for _ in range(int(DEFAULTS["epochs"])):
        loss = trained(**collate(datasets()[0])).loss
        steps.zero_grad()
        loss.backward()
        steps.step()
        losses.append(float(loss.detach()))
    print(json.dumps({"train/loss": losses}))
