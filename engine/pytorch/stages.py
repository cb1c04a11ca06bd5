"""A model in stages, one after the other: cutting it, and keeping one stage of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import nn

from engine.pytorch.strategy import Cut
from engine.worker.failures import TrainingFailed


class UncuttableModel(TrainingFailed):
    """A model that does not come apart into as many stages as there are devices."""


class _Layer(NamedTuple):
    """A link of a chain of layers."""

    path: tuple[str, ...]
    """Its names in the Sequentials around it, outermost first."""

    module: nn.Module


def cut_model(model: nn.Module, count: int, cut: Cut | None) -> list[nn.Module]:
    """`model` as `count` stages; the outputs of each are the inputs of the next.

    The stages are made of the model's own modules. `cut` is the recipe's `stages`; without one a
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
            "that many modules, or choose torch/ddp."
        )
    blocks = _blocks(list(_layers(model)))
    if len(blocks) < count:
        raise UncuttableModel(
            f"The model cannot be cut into {count} stages: only {len(blocks)} of its layers have "
            f"trainable parameters, and every stage needs one. Choose {max(1, len(blocks))} "
            "devices or fewer, or define stages(model, count) in the recipe."
        )
    stages, begin = [], 0
    for length in _balanced([_size(block) for block in blocks], count):
        chosen = blocks[begin : begin + length]
        stages.append(_sequential([layer for block in chosen for layer in block]))
        begin += length
    return _checked(stages, model, count)


def keep_only(model: nn.Module, stage: nn.Module) -> None:
    """Take all parameters and buffers out of `model` but those of `stage`, one of its stages.

    The others are None afterwards; what stays keeps its name in the whole model.
    """
    kept = {id(tensor) for tensor in (*stage.parameters(), *stage.buffers())}
    for module in model.modules():
        for own in (module._parameters, module._buffers):
            for name, tensor in own.items():
                if tensor is not None and id(tensor) not in kept:
                    own[name] = None


def _checked(stages: object, model: nn.Module, count: int) -> list[nn.Module]:
    """`stages`, if they are what `cut_model` promises."""
    modules = list(stages) if isinstance(stages, Iterable) else []
    if len(modules) != count or not all(isinstance(stage, nn.Module) for stage in modules):
        raise UncuttableModel(
            f"stages(model, {count}) in the recipe must return a list of {count} modules."
        )
    names: dict[int, str] = {}
    for name, tensor in _state(model):
        names.setdefault(id(tensor), name)
    owners: dict[int, int] = {}
    for number, stage in enumerate(modules):
        for name, tensor in _state(stage):
            owner = owners.setdefault(id(tensor), number)
            if id(tensor) not in names:
                raise UncuttableModel(
                    f"Stage {number} of the model has {name}, which is not in the model: "
                    "stages(model, count) must return the model's own modules, not copies."
                )
            if owner != number:
                raise UncuttableModel(
                    f"Stages {owner} and {number} of the model share {names[id(tensor)]}: stages "
                    "are on different devices, so what is shared must lie in one of them. Define "
                    "stages(model, count) in the recipe so that it does, or choose torch/ddp."
                )
        if not any(parameter.requires_grad for parameter in stage.parameters()):
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
    return modules


def _state(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """What of `module` goes into a checkpoint."""
    for name, value in module.state_dict(keep_vars=True).items():
        if isinstance(value, torch.Tensor):
            yield name, value


def _is_chain(module: nn.Module) -> bool:
    """Whether `module` does nothing but call its children one after the other."""
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _layers(module: nn.Module, path: tuple[str, ...] = ()) -> Iterator[_Layer]:
    """The links of a chain, those of chains within it too; one may occur more than once."""
    for name, child in module._modules.items():
        if child is None:
            continue
        if _is_chain(child):
            yield from _layers(child, (*path, name))
        else:
            yield _Layer((*path, name), child)


def _blocks(layers: Sequence[_Layer]) -> list[list[_Layer]]:
    """The layers in groups that belong together: each has one layer with trainable parameters.

    Layers without any go with the one before them: what an activation or a pooling gives is
    smaller, or no larger, than what it gets, and the former is what travels to the next stage.
    """
    blocks: list[list[_Layer]] = [[]]
    begun = False
    for layer in layers:
        if any(parameter.requires_grad for parameter in layer.module.parameters()):
            if begun:
                blocks.append([])
            begun = True
        blocks[-1].append(layer)
    return blocks if begun else []


def _size(block: Sequence[_Layer]) -> int:
    return sum(parameter.numel() for layer in block for parameter in layer.module.parameters())


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


def _sequential(layers: Sequence[_Layer]) -> nn.Sequential:
    """A chain of `layers`, each at its path."""
    root = nn.Sequential()
    for path, module in layers:
        chain: nn.Module = root
        for name in path[:-1]:
            if name not in chain._modules:
                chain.add_module(name, nn.Sequential())
            chain = chain.get_submodule(name)
        chain.add_module(path[-1], module)
    return root
