"""A model in stages, one after the other: cutting it, and keeping one stage of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import nn

from engine.pytorch.torch_strategy import Cut
from engine.training.stage_partition import CannotPartition, check_stages, partition_layers


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
        raise CannotPartition(
            f"The model is a {type(model).__name__}, not a Sequential, and cannot be cut into "
            f"{count} stages by itself: define stages(model, count) in the recipe, which returns "
            "that many modules, or choose torch/ddp."
        )
    layers = list(_layers(model))
    stages = [_sequential(stage) for stage in partition_layers(layers, count, _trains, _size)]
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
        raise CannotPartition(
            f"stages(model, {count}) in the recipe must return a list of {count} modules."
        )
    names: dict[int, str] = {}
    for name, tensor in _state(model):
        names.setdefault(id(tensor), name)
    check_stages(
        modules,
        names,
        held=lambda stage: ((id(tensor), name) for name, tensor in _state(stage)),
        trains=lambda stage: any(parameter.requires_grad for parameter in stage.parameters()),
        instead="torch/ddp",
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


def _trains(layer: _Layer) -> bool:
    return any(parameter.requires_grad for parameter in layer.module.parameters())


def _size(layer: _Layer) -> int:
    return sum(parameter.numel() for parameter in layer.module.parameters())


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
