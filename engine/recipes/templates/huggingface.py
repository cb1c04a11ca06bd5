"""A recipe with a model of Hugging Face: the model computes its loss from the batch.

Needs the library beside Traindeck: `pip install transformers`. A GPT-2 of a small size learns to
count here; put your own model, tokenizer and data in its place.
"""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

# Defaults of the form. The batch size is the global batch: samples per step over all devices.
DEFAULTS = {"epochs": 5, "batch_size": 32, "learning_rate": 0.001}

TOKENS = 32
IGNORED = -100  # the label of a token that the loss leaves out, in all models of the library


# Keyword arguments with a default are fields of the form.
def model(layers: int = 2, width: int = 32) -> GPT2LMHeadModel:
    config = GPT2Config(
        vocab_size=TOKENS,
        n_positions=16,
        n_embd=width,
        n_layer=layers,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    # With your own: AutoModelForCausalLM.from_pretrained("folder of the model")
    return GPT2LMHeadModel(config)


def datasets():
    """Sequences of different lengths; a data set of the library `datasets` works, too."""
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(4, 16, (600,), generator=generator).tolist()
    begins = torch.randint(1, 16, (600,), generator=generator).tolist()
    samples = []
    for begin, length in zip(begins, lengths, strict=True):
        samples.append({"input_ids": torch.arange(begin, begin + length)})
    return samples[:500], samples[500:]


# Makes a batch from samples. A DataCollator of the library can stand here:
# collate = DataCollatorForLanguageModeling(tokenizer, mlm=False)
def collate(samples):
    inputs = [sample["input_ids"] for sample in samples]
    padded = torch.nn.utils.rnn.pad_sequence(inputs, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(x) for x in inputs], batch_first=True)
    labels = padded.masked_fill(mask == 0, IGNORED)
    # Its loss is a mean over the labels that are not ignored; Traindeck weighs the batches of all
    # devices by their number, so that they train like one.
    return {"input_ids": padded, "attention_mask": mask, "labels": labels}


# The optimizer and the schedule of the learning rate: leave it out to choose them in the form.
def optimizer(parameters, learning_rate):
    return torch.optim.AdamW(parameters, learning_rate, weight_decay=0.01)
