"""My recipe: handwritten digits with PyTorch. Put your own model and data in their place.

`traindeck check FILE` tries it on one batch; `traindeck train --recipe FILE` trains it.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

# Defaults of the form. The batch size is the global batch: samples per step over all devices.
# With "steps" in the place of "epochs", the training is counted in steps.
DEFAULTS = {"epochs": 10, "batch_size": 64, "learning_rate": 0.001}

# Which way a metric is better, if its name does not tell:
# METRIC_DIRECTIONS = {"novelty": "max"}


# Keyword arguments with a default are fields of the form, and `--set width=64` in the terminal.
# A class does, too: `model = Net`. With a parameter `data`, it gets what datasets() has returned.
def model(width: int = 64, dropout: float = 0.1):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 10)
    )


# Training and validation data: Datasets, DataLoaders, pairs of arrays, or streams.
# Without validation data, return the training data alone.
def datasets(validation_share: float = 0.2):
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    count = int(len(images) * (1 - validation_share))
    return TensorDataset(images[:count], labels[:count]), TensorDataset(
        images[count:], labels[count:]
    )


# Everything below is optional. --------------------------------------------------------------------


# The mean over the given samples. Default: cross-entropy for whole numbers, else squared error.
def loss(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets)


# Further curves of the validation: means over the given samples.
def metrics(outputs, targets):
    return {"accuracy": (outputs.argmax(1) == targets).float().mean()}


# Leave it out to choose optimizer and schedule in the form. It may return a scheduler too:
# (optimizer, scheduler), or {"optimizer": ..., "scheduler": ..., "interval": "step" or "epoch"}.
def optimizer(parameters, learning_rate):
    return torch.optim.AdamW(parameters, learning_rate, weight_decay=0.01)


# In the place of loss() and metrics(): one step as you write it. Every entry is a curve.
#
# def step(model, batch):
#     images, labels = batch
#     outputs = model(images)
#     loss = nn.functional.cross_entropy(outputs, labels)
#     return {"loss": loss, "accuracy": (outputs.argmax(1) == labels).float().mean()}
#
#
# What the loss of a batch is a mean of, if it is not the samples: such as its tokens.
#
# def weight(batch):
#     return (batch["labels"] != -100).sum()
#
#
# The validation, if it is not as the step: means over the batch.
#
# def validate(model, batch):
#     images, labels = batch
#     return {"loss": nn.functional.cross_entropy(model(images), labels)}
#
#
# Several optimizers, in the place of optimizer(): step() is called once for each, in this order.
#
# def optimizers(model, learning_rate):
#     return {
#         "discriminator": torch.optim.Adam(model.discriminator.parameters(), learning_rate),
#         "generator": torch.optim.Adam(model.generator.parameters(), learning_rate),
#     }
#
#
# def step(model, batch, optimizer):
#     return model.generator_loss(batch) if optimizer == "generator" else model.real_or_fake(batch)
#
#
# The loss of each sample, which tells a replay of a step which sample made it.
#
# def sample_loss(outputs, targets):
#     return torch.nn.functional.cross_entropy(outputs, targets, reduction="none")
#
#
# A moving average of the weights, which is validated and saved beside them.
#
# def ema(model):
#     decay = torch.optim.swa_utils.get_ema_multi_avg_fn(0.999)
#     return torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=decay)
#
#
# After each epoch, with the metrics of its validation; what is true ends the training early.
#
# def on_epoch(model, epoch, metrics):
#     return metrics["validation/accuracy"] > 0.99
#
#
# Makes a batch of samples, for Datasets whose samples differ in their size.
#
# def collate(samples):
#     return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)
#
#
# `count` modules, one after the other, for the strategies pipeline and model_parallel.
#
# def stages(model, count):
#     return [model[:3], model[3:]]
