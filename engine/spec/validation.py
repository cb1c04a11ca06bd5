"""Validates a spec: returns each reason why it cannot run, as a sentence, with the field."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from engine.scripts.secrets import shown_setting
from engine.spec.device_names import (
    devices_on,
    is_logical_cpu,
    is_mig_slice,
    machine_of,
    machines_of,
)
from engine.spec.field_info import Setting
from engine.spec.metric_direction import split_direction, split_series
from engine.spec.recipe_file import no_recipe
from engine.spec.run_spec import FIELDS, RunSpec
from engine.system.program import call
from engine.telemetry.gpu_makers import gpu_maker

if TYPE_CHECKING:
    from engine.spec.recipe_file import RecipeInfo
    from engine.spec.strategy import Strategy


class Problem(msgspec.Struct, frozen=True):
    """One reason why a spec cannot be started."""

    field: str
    """Name of a `RunSpec` field, or `settings.<name>`; empty: not the fault of one field."""

    text: str


def problems(
    spec: RunSpec,
    recipe: RecipeInfo,
    strategy: Strategy,
    known_devices: Collection[str],
    device_refusal: Callable[[str], str] = lambda device: "",
    is_in_cluster: bool = False,
) -> list[Problem]:
    """Return every reason why `spec` cannot run; empty when it can. Reads no file.

    `known_devices` are the UUIDs of the GPUs and MIG slices that a run can use now; logical CPU
    devices are always known. `device_refusal` returns why one that is not among them may not be
    used, in a sentence; empty: it is not on this machine. Whether the devices of other machines
    are there is found out when the run begins.
    """
    found = [Problem("recipe", recipe.problem)] if recipe.problem else []
    if not spec.is_script and (problem := no_recipe(recipe)):
        found.append(Problem("recipe", problem))
    elif not recipe.problem and (mismatch := strategy.recipe_problem(recipe)):
        found.append(Problem("strategy", mismatch))
    found += [
        Problem("devices", text)
        for text in _device_problems(spec.devices, known_devices, device_refusal)
    ]
    if spec.devices:
        found += [Problem("devices", text) for text in strategy.problems(spec.devices)]
        of_machines = _machine_problems(spec, recipe, strategy, is_in_cluster)
        found += [Problem("devices", text) for text in of_machines]
    out_of_range = [
        Problem(name, text)
        for name, info in FIELDS.items()
        if (text := info.problem(getattr(spec, name)))
    ]
    found += out_of_range
    if not out_of_range:
        found += [] if recipe.is_script else _batch_problems(spec, strategy)
        found += [
            Problem(name, text)
            for name, info in FIELDS.items()
            if getattr(spec, name) != info.default
            and (text := strategy.refusal(name, spec) or strategy.script_refusal(name, recipe))
        ]
    if folder_problem := _log_folder_problem(spec):
        found.append(Problem("tensorboard_folder", folder_problem))
    if spec.shared_folder and not Path(spec.shared_folder).is_absolute():
        text = f"Shared folder must be an absolute path, not {spec.shared_folder!r}."
        found.append(Problem("shared_folder", text))
    for name in ("checkpoint_best", "early_stopping"):
        if direction_problem := _direction_problem(getattr(spec, name)):
            found.append(Problem(name, direction_problem))
    found += _stopping_problems(spec)
    if not recipe.problem:  # of a file that cannot be read no setting is known
        found += _setting_problems(spec.settings, recipe)
    return found


def secret_problems(
    spec: RunSpec, recipe: RecipeInfo, stored: Mapping[str, Setting] = MappingProxyType({})
) -> list[Problem]:
    """Return which settings of the recipe seem to hold a secret: files hold them as they are.

    Not those that have the default, which the recipe says itself, or are `stored` already.
    """
    known = {field.name: field.default for field in recipe.fields} | dict(stored)
    return [
        Problem(
            f"settings.{name}",
            f"{name} seems to hold a password, key or token, and settings are stored as they are: "
            "leave it out, and let the recipe read it from the environment, with "
            f'os.environ["{name.upper()}"].',
        )
        for name, value in spec.settings.items()
        if value != known.get(name) and shown_setting(name, value) != value
    ]


def _stopping_problems(spec: RunSpec) -> list[Problem]:
    found = []
    for name in ("patience", "min_delta"):
        if not spec.early_stopping and getattr(spec, name) != FIELDS[name].default:
            text = f"{FIELDS[name].title} is for early stopping: choose its metric, or leave this "
            found.append(Problem(name, f"{text}at {FIELDS[name].default}."))
    for name in ("checkpoint_best", "early_stopping"):
        series, _ = split_series(getattr(spec, name))
        if series.startswith("train/") and not spec.is_script:
            text = f"{FIELDS[name].title} watches the validation, and {series} is measured on the "
            metric = series.removeprefix("train/")
            found.append(Problem(name, f"{text}training data: choose a metric such as {metric}."))
    (best, one), (early, other) = map(split_direction, (spec.checkpoint_best, spec.early_stopping))
    if best == early and one and other and one != other:
        text = f"Keep best says {best}:{one}, and early stopping {early}:{other}: choose one."
        found.append(Problem("early_stopping", text))
    without = [device for device in spec.devices if is_logical_cpu(device) or is_mig_slice(device)]
    if spec.energy_limit_wh and without:
        what = "a CPU" if is_logical_cpu(without[0]) else "a slice of a divided GPU"
        text = f"The power of {what} is not measured: an energy limit needs whole GPUs. Use a time "
        found.append(Problem("energy_limit_wh", f"{text}limit, or leave this empty."))
    return found


def _log_folder_problem(spec: RunSpec) -> str:
    folder = spec.tensorboard_folder
    if not folder:
        return ""
    if not spec.tensorboard:
        return (
            "TensorBoard folder is for a run with a TensorBoard log: switch that on, or empty it."
        )
    if not folder.startswith(("/", "~")) and not Path(folder).is_absolute():
        return f"TensorBoard folder must be an absolute path, not {folder!r}."
    return ""


def _direction_problem(checkpoint_best: str) -> str:
    name, colon, given = checkpoint_best.rpartition(":")
    if not colon or split_direction(checkpoint_best)[1]:
        return ""
    return (
        f"{given!r} is no direction of a metric: write {name or 'loss'}:min if lower values are "
        "better, or :max if higher values are."
    )


def _device_problems(
    devices: Sequence[str], known: Collection[str], refusal: Callable[[str], str]
) -> list[str]:
    if not devices:
        return ["No device is chosen: choose at least one."]
    found = []
    for device in dict.fromkeys(devices):
        if devices.count(device) > 1:
            found.append(f"{device} is chosen {devices.count(device)} times: choose it once.")
        if not (is_logical_cpu(device) or machine_of(device) or device in known):
            found.append(
                refusal(device)
                or f"{device} is not on this machine (any more): choose one that "
                f"`{call('devices')}` lists."
            )
    if len(devices) > 1 and any(map(is_mig_slice, devices)):
        found.append(
            "A program can use only one slice of a divided GPU (MIG): choose one slice alone, or "
            "GPUs that are not divided."
        )
    if len({is_logical_cpu(device) for device in devices}) > 1:
        found.append("CPU and GPU devices cannot train together: choose one kind.")
    makers = {gpu_maker(device): 0 for device in devices if not is_logical_cpu(device)}
    if len(makers) > 1:
        kinds = " and ".join(makers)
        found.append(f"GPUs of {kinds} cannot train together: choose those of one maker.")
    return found


def _machine_problems(
    spec: RunSpec, recipe: RecipeInfo, strategy: Strategy, is_in_cluster: bool
) -> list[str]:
    """Return why the run cannot use devices of several machines, if it is to."""
    machines = machines_of(spec.devices)
    if not any(machines):
        return []
    found: list[str] = []
    if recipe.is_script:
        return ["A script runs on one machine: choose devices of one."]
    if spec.interpreter:
        return [
            "A run over several machines uses Traindeck's own Python on each of them: install the "
            "packages there, and choose no other environment."
        ]
    if not strategy.spans_machines:
        if not strategy.problems(spec.devices):  # it says more
            found.append(
                f"{strategy.name} works within one machine: choose devices of this one, or another "
                "strategy, such as torch/ddp or tf/multi_worker."
            )
        return found
    if not is_in_cluster:
        found.append(
            f"This machine is in no cluster, so there is no {', '.join(filter(None, machines))}: "
            f"begin one with `{call('cluster start')}`, or choose devices of this machine."
        )
    elif spec.min_machines > len(machines):
        found.append(f"Min machines is {spec.min_machines}, but the run has {len(machines)}.")
    if machines[0]:
        found.append(
            "The first device must be one of this machine: rank 0 writes the checkpoints here."
        )
    elif [machine_of(each) for each in spec.devices] != [
        machine for machine in machines for _ in devices_on(machine, spec.devices)
    ]:
        found.append("Name the devices of each machine one after the other.")
    return found


def _batch_problems(spec: RunSpec, strategy: Strategy) -> list[Problem]:
    replicas = strategy.replicas(spec.slots) if spec.devices else 1
    parts = replicas * spec.accumulation
    if spec.batch_size >= parts:
        return []
    if spec.accumulation == 1:
        shares = f"{replicas} replicas"
    else:
        shares = f"{replicas} replica{'s' if replicas > 1 else ''} × {spec.accumulation} steps"
    text = f"A global batch of {spec.batch_size} cannot be shared by {shares}: "
    return [Problem("batch_size", f"{text}choose at least {parts}.")]


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
