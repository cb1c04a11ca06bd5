"""Cuts a model into stages, and removes the other stages from a rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import nn

from engine.pytorch.recipe.torch_recipe import RecipeStages
from engine.training.stage_partition import CannotPartition, check_stages, partition_layers


class _Layer(NamedTuple):
    """One layer of a chain."""

    path: tuple[str, ...]
    """The names of the Sequentials around it, outermost first, and then its own name."""

    module: nn.Module


def cut_model(model: nn.Module, count: int, recipe_stages: RecipeStages | None) -> list[nn.Module]:
    """Cut `model` into `count` stages; the outputs of each are the inputs of the next.

    The stages consist of the model's own modules, and every stage has a trainable parameter.
    Without `recipe_stages`, a Sequential is cut so that the largest stage has as few parameters as
    possible. Raises CannotPartition.
    """
    if count == 1:
        return [model]
    if recipe_stages:
        return _checked_stages(recipe_stages(model, count), model, count)
    if not _is_chain(model):
        raise CannotPartition(
            f"The model is a {type(model).__name__}, not a Sequential, and cannot be cut into "
            f"{count} stages by itself: define stages(model, count) in the recipe, which returns "
            "that many modules, or choose torch/ddp."
        )
    layers = list(_layers(model))
    stages = [_sequential(stage) for stage in partition_layers(layers, count, _trains, _size)]
    return _checked_stages(stages, model, count)


def keep_only(model: nn.Module, stage: nn.Module) -> None:
    """Remove from `model`, in place, all parameters and buffers except those of `stage`.

    The removed ones become None; the others keep their names in the whole model.
    """
    kept = {id(tensor) for tensor in (*stage.parameters(), *stage.buffers())}
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None and id(tensor) not in kept:
                    tensors[name] = None


def _checked_stages(stages: object, model: nn.Module, count: int) -> list[nn.Module]:
    """Return `stages` as a list. Raises CannotPartition if they break a rule of `cut_model`."""
    modules = list(stages) if isinstance(stages, Iterable) else []
    if len(modules) != count or not all(isinstance(stage, nn.Module) for stage in modules):
        raise CannotPartition(
            f"stages(model, {count}) in the recipe must return a list of {count} modules."
        )
    names: dict[int, str] = {}
    for name, tensor in _state_tensors(model):
        names.setdefault(id(tensor), name)
    check_stages(
        modules,
        names,
        tensors_of=lambda stage: ((id(tensor), name) for name, tensor in _state_tensors(stage)),
        is_trainable=lambda stage: any(parameter.requires_grad for parameter in stage.parameters()),
        alternative="torch/ddp",
    )
    return modules


def _state_tensors(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of `module` that a checkpoint holds, by name."""
    for name, value in module.state_dict(keep_vars=True).items():
        if isinstance(value, torch.Tensor):
            yield name, value


def _is_chain(module: nn.Module) -> bool:
    """Return whether `module` only calls its children one after the other."""
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _layers(module: nn.Module, path: tuple[str, ...] = ()) -> Iterator[_Layer]:
    """Yield the layers of a chain and of the chains in it; a shared layer occurs several times."""
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
    """Return nested Sequentials in which each of `layers` has its path."""
    root = nn.Sequential()
    for path, module in layers:
        chain: nn.Module = root
        for name in path[:-1]:
            if name not in chain._modules:
                chain.add_module(name, nn.Sequential())
            chain = chain.get_submodule(name)
        chain.add_module(path[-1], module)
    return root
