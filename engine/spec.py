"""What a run was asked to be: `RunSpec`, and the sentences that say what is wrong with one."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from engine.recipe_file import RecipeInfo
    from engine.strategy import Strategy

Setting = bool | int | float | str
"""A value that a recipe's keyword argument can take."""

LARGEST = 2**31 - 1
"""Seeds up to here suit torch, TensorFlow and numpy; no count of a run has any use beyond it."""

_LOGICAL_CPU = re.compile(r"cpu:(0|[1-9]\d{0,2})")
MOST_LOGICAL_CPUS = 64


class RunSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides what a run computes. Stored as `spec.toml` in the run folder."""

    recipe: str
    """Name of a built-in recipe, or the absolute path of a recipe file."""

    strategy: str
    """Full name of a strategy, such as `torch/ddp`."""

    devices: tuple[str, ...]
    """One entry per device: `cpu:0`, `cpu:1`, ... (logical CPU devices) or full GPU UUIDs."""

    batch_size: int = 128
    """Global batch size: samples per optimizer step over all replicas together."""

    epochs: int = 5
    """Passes over the training data."""

    learning_rate: float = 1e-3
    """Passed to the recipe's optimizer."""

    seed: int = 0
    """Decides the initial weights, the order of the samples and every random draw."""

    settings: dict[str, Setting] = {}
    """Values for keyword arguments of the recipe's functions."""

    name: str = ""
    """What the user calls the run; empty means: named after the recipe."""


class Problem(msgspec.Struct, frozen=True):
    """One reason why a spec cannot be started, in words, beside the field that it is about."""

    field: str
    """Name of a `RunSpec` field, or `settings.<name>`."""

    text: str


def is_logical_cpu(device: str) -> bool:
    """Whether `device` names a logical CPU device (`cpu:0` ... `cpu:63`)."""
    match = _LOGICAL_CPU.fullmatch(device)
    return match is not None and int(match[1]) < MOST_LOGICAL_CPUS


def batch_arithmetic(batch_size: int, replicas: int) -> str:
    """The sentence that shows how a global batch is shared, such as `128 = 64 per replica × 2`."""
    if replicas < 1 or batch_size < 1:
        return ""
    share, rest = divmod(batch_size, replicas)
    if rest:
        parts = f"{rest} × {share + 1} + {replicas - rest} × {share}"
        return f"{batch_size} = {parts} over {replicas} replicas"
    return f"{batch_size} = {share} per replica × {replicas} replica{'s' if replicas > 1 else ''}"


def problems(
    spec: RunSpec, recipe: RecipeInfo, strategy: Strategy, known_devices: Collection[str]
) -> list[Problem]:
    """Every reason why `spec` cannot run, empty when it can. Reads nothing, imports nothing.

    `known_devices` holds the GPU UUIDs that this machine has now; logical CPU devices are always
    known.
    """
    found = [Problem("recipe", recipe.problem)] if recipe.problem else []
    if not recipe.problem and recipe.framework not in strategy.recipe_frameworks:
        found.append(
            Problem(
                "strategy",
                f"{strategy.name} trains {' and '.join(sorted(strategy.recipe_frameworks))} "
                f"recipes; {recipe.name} is a {recipe.framework} recipe. Choose another strategy.",
            )
        )
    found += [Problem("devices", text) for text in _device_problems(spec.devices, known_devices)]
    if spec.devices:
        found += [Problem("devices", text) for text in strategy.problems(spec.devices)]
    found += _number_problems(spec, strategy.replicas(spec.devices) if spec.devices else 1)
    found += _setting_problems(spec.settings, recipe)
    return found


def _device_problems(devices: Sequence[str], known: Collection[str]) -> list[str]:
    if not devices:
        return ["No device is chosen: choose at least one."]
    found = []
    for device in dict.fromkeys(devices):
        if devices.count(device) > 1:
            found.append(f"{device} is chosen {devices.count(device)} times: choose it once.")
        if not is_logical_cpu(device) and device not in known:
            found.append(
                f"{device} is not on this machine (any more): choose one that "
                "`python main.py devices` lists."
            )
    if len({is_logical_cpu(device) for device in devices}) > 1:
        found.append("CPU and GPU devices cannot train together: choose one kind.")
    return found


def _number_problems(spec: RunSpec, replicas: int) -> list[Problem]:
    found = []
    if spec.batch_size < 1:
        found.append(Problem("batch_size", "The global batch size must be at least 1."))
    elif spec.batch_size < replicas:
        found.append(
            Problem(
                "batch_size",
                f"A global batch of {spec.batch_size} cannot be shared by {replicas} replicas: "
                f"choose at least {replicas}.",
            )
        )
    elif spec.batch_size > LARGEST:
        found.append(Problem("batch_size", f"The global batch size must be at most {LARGEST}."))
    if spec.epochs < 1:
        found.append(Problem("epochs", "At least 1 epoch is needed."))
    elif spec.epochs > LARGEST:
        found.append(Problem("epochs", f"At most {LARGEST} epochs are possible."))
    if not (math.isfinite(spec.learning_rate) and spec.learning_rate > 0):
        found.append(
            Problem("learning_rate", "The learning rate must be a number above 0, such as 0.001.")
        )
    if not 0 <= spec.seed <= LARGEST:
        found.append(Problem("seed", f"The seed must lie between 0 and {LARGEST}."))
    return found


def _setting_problems(settings: dict[str, Setting], recipe: RecipeInfo) -> list[Problem]:
    fields = {field.name: field for field in recipe.fields}
    found = []
    for name, value in settings.items():
        if name not in fields:
            known = ", ".join(sorted(fields)) or "none"
            text = f"{recipe.name} has no setting {name!r}. Its settings: {known}."
        else:
            text = fields[name].problem(value)
        if text:
            found.append(Problem(f"settings.{name}", text))
    return found
