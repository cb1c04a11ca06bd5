"""A small language model and Hugging Face's Trainer."""

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.manual_seed(0)
config = GPT2Config(vocab_size=20, n_positions=8, n_embd=8, n_layer=1, n_head=1)
data = [{"input_ids": row, "labels": row} for row in torch.randint(0, 20, (32, 8))]
arguments = TrainingArguments(
    output_dir="out",
    max_steps=int(sys.argv[1]),
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    eval_strategy="steps",
    eval_steps=10,
    save_steps=20,
    logging_steps=5,
    use_cpu=True,
    report_to="none",
    disable_tqdm=True,
)
trainer = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=data, eval_dataset=data[:8])
trainer.train()
print("ended after", trainer.state.global_step)
