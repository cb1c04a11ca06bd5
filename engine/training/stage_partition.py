"""Partitions a model into stages, for both frameworks, and checks the stages of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import TypeVar

from engine.training.errors import TrainingFailed

Layer = TypeVar("Layer")
Stage = TypeVar("Stage")


class CannotPartition(TrainingFailed):
    """A model cannot be partitioned into as many stages as there are devices."""


def partition_layers(
    layers: Sequence[Layer],
    count: int,
    is_trainable: Callable[[Layer], bool],
    size: Callable[[Layer], int],
) -> list[list[Layer]]:
    """Partition a chain of `layers` into `count` stages, with the largest one as small as possible.

    `is_trainable(layer)` returns whether a layer has a trainable parameter; every stage needs one.
    `size(layer)` is its number of parameters. Raises CannotPartition.
    """
    blocks = _blocks(layers, is_trainable)
    if len(blocks) < count:
        raise CannotPartition(
            f"The model cannot be cut into {count} stages: only {len(blocks)} of its layers have "
            f"trainable parameters, and every stage needs one. Choose {max(1, len(blocks))} "
            "devices or fewer, or define stages(model, count) in the recipe."
        )
    stages, begin = [], 0
    for length in _balanced([sum(map(size, block)) for block in blocks], count):
        stages.append([layer for block in blocks[begin : begin + length] for layer in block])
        begin += length
    return stages


def check_stages(
    stages: Sequence[Stage],
    names: Mapping[int, str],
    tensors_of: Callable[[Stage], Iterable[tuple[int, str]]],
    is_trainable: Callable[[Stage], bool],
    alternative: str,
) -> None:
    """Raise CannotPartition unless every tensor of the model is in exactly one of `stages`.

    `names` maps the identity of each tensor of the model to its name. `tensors_of(stage)` yields
    identity and name of each tensor of a stage. `alternative` names a strategy without stages.
    """
    owners: dict[int, int] = {}
    for number, stage in enumerate(stages):
        for key, name in tensors_of(stage):
            owner = owners.setdefault(key, number)
            if key not in names:
                raise CannotPartition(
                    f"Stage {number} of the model has {name}, which is not in the model: "
                    "stages(model, count) must return the model's own layers, not copies."
                )
            if owner != number:
                raise CannotPartition(
                    f"Stages {owner} and {number} of the model share {names[key]}: stages are on "
                    "different devices, so what is shared must lie in one of them. Define "
                    f"stages(model, count) in the recipe so that it does, or choose {alternative}."
                )
        if not is_trainable(stage):
            raise CannotPartition(
                f"Stage {number} of the model has no trainable parameter: let stages(model, "
                "count) in the recipe give it one, or choose fewer devices."
            )
    for key, name in names.items():
        if key not in owners:
            raise CannotPartition(
                f"No stage of the model holds {name}: the stages that stages(model, count) in "
                "the recipe returns must hold the whole model together."
            )


def _blocks(layers: Sequence[Layer], is_trainable: Callable[[Layer], bool]) -> list[list[Layer]]:
    """Group the layers so that each group has exactly one layer with trainable parameters.

    A layer without trainable parameters joins the group before it. Such a layer, an activation or a
    pooling, often makes its input smaller, and the output of a stage is sent to the next stage.
    """
    blocks: list[list[Layer]] = [[]]
    begun = False
    for layer in layers:
        if is_trainable(layer):
            if begun:
                blocks.append([])
            begun = True
        blocks[-1].append(layer)
    return blocks if begun else []


def _balanced(sizes: Sequence[int], count: int) -> tuple[int, ...]:
    """Return the lengths of `count` parts of `sizes`, none empty, that minimize the largest sum."""
    sums = list(accumulate(sizes, initial=0))

    @cache
    def best(begin: int, parts: int) -> tuple[int, tuple[int, ...]]:
        """Return the largest sum, and the lengths, for `sizes[begin:]` in `parts` parts."""
        remaining = len(sizes) - begin
        if parts == 1:
            return sums[-1] - sums[begin], (remaining,)
        options = []
        for length in range(1, remaining - parts + 2):
            largest, lengths = best(begin + length, parts - 1)
            first = sums[begin + length] - sums[begin]
            options.append((max(first, largest), (length, *lengths)))
        return min(options)

    return best(0, count)[1]
