"""Cutting a Keras model into stages, one after the other, each of them for one device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import keras

from engine.worker.failures import TrainingFailed

Cut = Callable[[keras.Model, int], Any]
"""A recipe's `stages(model, count)`."""


class UncuttableModel(TrainingFailed):
    """A model that does not come apart into as many stages as there are devices."""


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
        raise UncuttableModel(
            f"The model is a {type(model).__name__}, not a Sequential, and cannot be cut into "
            f"{count} stages by itself: define stages(model, count) in the recipe, which returns "
            "that many layers or models, or choose tf/mirrored."
        )
    blocks = _blocks(list(_layers(model)))
    if len(blocks) < count:
        raise UncuttableModel(
            f"The model cannot be cut into {count} stages: only {len(blocks)} of its layers have "
            f"trainable parameters, and every stage needs one. Choose {max(1, len(blocks))} "
            "devices or fewer, or define stages(model, count) in the recipe."
        )
    stages, begin = [], 0
    for length in _balanced([sum(map(_size, block)) for block in blocks], count):
        chosen = blocks[begin : begin + length]
        stages.append(Stage([layer for block in chosen for layer in block]))
        begin += length
    return _checked(stages, model, count)


def _checked(stages: object, model: keras.Model, count: int) -> list[keras.Layer]:
    """`stages`, if they are what `cut_model` promises."""
    layers = list(stages) if isinstance(stages, Iterable) else []
    if len(layers) != count or not all(isinstance(stage, keras.Layer) for stage in layers):
        raise UncuttableModel(
            f"stages(model, {count}) in the recipe must return a list of {count} layers or models."
        )
    names = {id(variable): variable.path for variable in model.variables}
    owners: dict[int, int] = {}
    for number, stage in enumerate(layers):
        for variable in stage.variables:
            owner = owners.setdefault(id(variable), number)
            if id(variable) not in names:
                raise UncuttableModel(
                    f"Stage {number} of the model has {variable.path}, which is not in the model: "
                    "stages(model, count) must return the model's own layers, not copies."
                )
            if owner != number:
                raise UncuttableModel(
                    f"Stages {owner} and {number} of the model share {variable.path}: stages are "
                    "on different devices, so what is shared must lie in one of them. Define "
                    "stages(model, count) in the recipe so that it does, or choose tf/mirrored."
                )
        if not stage.trainable_variables:
            raise UncuttableModel(
                f"Stage {number} of the model has no trainable parameter: let stages(model, "
                "count) in the recipe give it one, or choose fewer devices."
            )
    for key, name in names.items():
        if key not in owners:
            raise UncuttableModel(
                f"No stage of the model holds {name}: the stages that stages(model, count) in "
                "the recipe returns must hold the whole model together."
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


def _blocks(layers: Sequence[keras.Layer]) -> list[list[keras.Layer]]:
    """The layers in groups that belong together: each has one layer with trainable parameters.

    Layers without any go with the one before them: what an activation or a pooling gives is
    smaller, or no larger, than what it gets, and the former is what travels to the next stage.
    """
    blocks: list[list[keras.Layer]] = [[]]
    begun = False
    for layer in layers:
        if layer.trainable_variables:
            if begun:
                blocks.append([])
            begun = True
        blocks[-1].append(layer)
    return blocks if begun else []


def _size(layer: keras.Layer) -> int:
    return int(layer.count_params())


def _balanced(sizes: Sequence[int], count: int) -> tuple[int, ...]:
    """Lengths of `count` runs of `sizes`, none empty, whose largest sum is as small as possible."""
    sums = list(accumulate(sizes, initial=0))

    @cache
    def best(begin: int, runs: int) -> tuple[int, tuple[int, ...]]:
        """The largest sum, and the lengths, for `sizes[begin:]`."""
        left = len(sizes) - begin
        if runs == 1:
            return sums[-1] - sums[begin], (left,)
        options = []
        for length in range(1, left - runs + 2):
            largest, lengths = best(begin + length, runs - 1)
            first = sums[begin + length] - sums[begin]
            options.append((max(first, largest), (length, *lengths)))
        return min(options)

    return best(0, count)[1]
