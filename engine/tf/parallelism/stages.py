"""Cuts a Keras model into stages, one per device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import keras

from engine.training.stage_partition import CannotPartition, check_stages, partition_layers

RecipeStages = Callable[[keras.Model, int], Any]
"""A recipe's `stages(model, count)`."""


class SequentialStage(keras.Layer):  # type: ignore[misc]
    """Layers that are called one after the other."""

    def __init__(self, layers: Sequence[keras.Layer]) -> None:
        super().__init__()
        self.chain = list(layers)
        self.built = True  # its layers are built

    def call(self, values: Any, training: bool | None = None) -> Any:
        """Return the outputs of the last layer for the inputs of the first one."""
        for layer in self.chain:
            values = layer(values, training=training)
        return values


def cut_model(
    model: keras.Model, count: int, recipe_stages: RecipeStages | None
) -> list[keras.Layer]:
    """Cut the built `model` into `count` stages; the outputs of each are the inputs of the next.

    The stages consist of the model's own layers, and every stage has a trainable parameter.
    Without `recipe_stages`, a Sequential is cut so that the largest stage has as few parameters
    as possible. Raises CannotPartition.
    """
    if count == 1:
        return [model]
    if recipe_stages:
        return _checked_stages(recipe_stages(model, count), model, count)
    if not _is_chain(model):
        raise CannotPartition(
            f"The model is a {type(model).__name__}, not a Sequential, and cannot be cut into "
            f"{count} stages by itself: define stages(model, count) in the recipe, which returns "
            "that many layers or models, or choose tf/mirrored."
        )
    layers = list(_layers(model))
    stages = [SequentialStage(stage) for stage in partition_layers(layers, count, _trains, _size)]
    return _checked_stages(stages, model, count)


def _checked_stages(stages: object, model: keras.Model, count: int) -> list[keras.Layer]:
    """Return `stages` as a list. Raises CannotPartition if they break a rule of `cut_model`."""
    layers = list(stages) if isinstance(stages, Iterable) else []
    if len(layers) != count or not all(isinstance(stage, keras.Layer) for stage in layers):
        raise CannotPartition(
            f"stages(model, {count}) in the recipe must return a list of {count} layers or models."
        )
    check_stages(
        layers,
        {id(variable): variable.path for variable in model.variables},
        tensors_of=lambda stage: ((id(variable), variable.path) for variable in stage.variables),
        is_trainable=_trains,
        alternative="tf/mirrored",
    )
    return layers


def _is_chain(layer: keras.Layer) -> bool:
    """Return whether `layer` only calls its layers one after the other."""
    return isinstance(layer, keras.Sequential) and type(layer).call is keras.Sequential.call


def _layers(model: keras.Sequential) -> Iterator[keras.Layer]:
    """Yield the layers of a chain and of the chains in it."""
    for layer in model.layers:
        if _is_chain(layer):
            yield from _layers(layer)
        else:
            yield layer


def _trains(layer: keras.Layer) -> bool:
    return bool(layer.trainable_variables)


def _size(layer: keras.Layer) -> int:
    return int(layer.count_params())
