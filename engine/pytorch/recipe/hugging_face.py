"""A model of Hugging Face transformers in a recipe: it computes its loss from a batch itself.

The library is never imported here: its classes are known by their names.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from engine.pytorch.recipe.torch_recipe import TorchRecipe, Turn, Values
from engine.training.errors import TrainingFailed

IGNORED = -100
"""The label of what the loss leaves out, in all models of the library."""

_NEXT_TOKEN = ("ForCausalLM", "LMHeadModel")
"""Ends of the names of classes whose logits are compared with the labels of the next position."""


def is_pretrained_model(model: Any) -> bool:
    """Return whether `model` is a `PreTrainedModel` of transformers."""
    return any(
        kind.__name__ == "PreTrainedModel" and kind.__module__.startswith("transformers.")
        for kind in type(model).__mro__
    )


def adapted(recipe: TorchRecipe, model: Any) -> TorchRecipe:
    """Return `recipe` with the loss that `model` computes, unless the recipe computes one itself.

    The loss is a mean over the labels that are not ignored, so that is the weight of a batch.
    """
    if recipe.step is not None or recipe.has_own_loss:
        return recipe
    names = _argument_names(model)
    counts_next = type(model).__name__.endswith(_NEXT_TOKEN)

    def values(trained: Any, batch: Any) -> Values:
        if not isinstance(batch, Mapping):
            raise TrainingFailed(
                f"{type(model).__name__} takes its arguments by name, but a batch is a "
                f"{type(batch).__name__}: let datasets() give samples that are dictionaries, or "
                "define collate(samples) in the recipe."
            )
        chosen = {name: batch[name] for name in batch if not names or name in names}
        outputs = trained(**chosen)
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else None
        if loss is None:
            raise TrainingFailed(
                f"{type(model).__name__} gave no loss for a batch with "
                f"{', '.join(map(repr, batch))}: it computes one if the batch has 'labels'."
            )
        return {"loss": loss}

    def step(trained: Any, batch: Any, turn: Turn) -> Values:
        return values(trained, batch)

    def weight(batch: Any) -> float:
        return counted_labels(batch, counts_next=counts_next)

    return replace(
        recipe,
        takes_pairs=False,
        step=step,
        validate=recipe.validate or values,
        weight=recipe.weight or weight,
    )


def counted_labels(batch: Any, *, counts_next: bool) -> float:
    """Return over how many labels of `batch` the loss is a mean.

    With `counts_next`, the first label of each sequence is compared with nothing.
    """
    labels = batch.get("labels") if isinstance(batch, Mapping) else None
    if not isinstance(labels, torch.Tensor) or labels.ndim == 0:
        return _length(batch)
    if labels.is_floating_point():
        return float(len(labels))
    if counts_next and labels.ndim > 1:
        labels = labels[..., 1:]
    return float((labels != IGNORED).sum())


def _length(batch: Any) -> float:
    values = batch.values() if isinstance(batch, Mapping) else batch
    return float(next((len(v) for v in values if isinstance(v, torch.Tensor) and v.ndim), 1))


def _argument_names(model: Any) -> frozenset[str]:
    """Return the arguments of the model's `forward`; nothing if it takes any.

    What a batch has beside them is left out, as the `Trainer` of the library does.
    """
    parameters = inspect.signature(model.forward).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()) and len(parameters) == 1:
        return frozenset()
    return frozenset(parameters)
