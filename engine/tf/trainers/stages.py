"""Cutting a Keras model into stages, one after the other, each of them for one device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import keras

from engine.training.stage_partition import CannotPartition, check_stages, partition_layers

Cut = Callable[[keras.Model, int], Any]
"""A recipe's `stages(model, count)`."""


class Stage(keras.Layer):  # type: ignore[misc]
    """Layers that are called one after the other."""

    def __init__(self, layers: Sequence[keras.Layer]) -> None:
        super().__init__()
        self.chain = list(layers)
        self.built = True  # its layers are

    def call(self, values: Any, training: bool | None = None) -> Any:
        """What the last layer makes of what the first one gets."""
        for layer in self.chain:
            values = layer(values, training=training)
        return values


def cut_model(model: keras.Model, count: int, cut: Cut | None) -> list[keras.Layer]:
    """The built `model` as `count` stages; the outputs of each are the inputs of the next.

    The stages are made of the model's own layers. `cut` is the recipe's `stages`; without one a
    Sequential is cut so that the largest stage has as few parameters as possible. Every stage has
    a trainable parameter. Raises UncuttableModel.
    """
    if count == 1:
        return [model]
    if cut:
        return _checked(cut(model, count), model, count)
    if not _is_chain(model):
        raise CannotPartition(
            f"The model is a {type(model).__name__}, not a Sequential, and cannot be cut into "
            f"{count} stages by itself: define stages(model, count) in the recipe, which returns "
            "that many layers or models, or choose tf/mirrored."
        )
    layers = list(_layers(model))
    stages = [Stage(stage) for stage in partition_layers(layers, count, _trains, _size)]
    return _checked(stages, model, count)


def _checked(stages: object, model: keras.Model, count: int) -> list[keras.Layer]:
    """`stages`, if they are what `cut_model` promises."""
    layers = list(stages) if isinstance(stages, Iterable) else []
    if len(layers) != count or not all(isinstance(stage, keras.Layer) for stage in layers):
        raise CannotPartition(
            f"stages(model, {count}) in the recipe must return a list of {count} layers or models."
        )
    check_stages(
        layers,
        {id(variable): variable.path for variable in model.variables},
        held=lambda stage: ((id(variable), variable.path) for variable in stage.variables),
        trains=_trains,
        instead="tf/mirrored",
    )
    return layers


def _is_chain(layer: keras.Layer) -> bool:
    """Whether `layer` does nothing but call its layers one after the other."""
    return isinstance(layer, keras.Sequential) and type(layer).call is keras.Sequential.call


def _layers(model: keras.Sequential) -> Iterator[keras.Layer]:
    """The links of a chain, those of chains within it too."""
    for layer in model.layers:
        if _is_chain(layer):
            yield from _layers(layer)
        else:
            yield layer


def _trains(layer: keras.Layer) -> bool:
    return bool(layer.trainable_variables)


def _size(layer: keras.Layer) -> int:
    return int(layer.count_params())
