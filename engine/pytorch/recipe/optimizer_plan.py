"""Optimizers and their schedulers, in one form, from all forms that a recipe may return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.optim import lr_scheduler

from engine.training.errors import TrainingFailed

PER_BATCH = (lr_scheduler.OneCycleLR, lr_scheduler.CyclicLR)
"""Schedulers that PyTorch describes as stepped after every batch."""

_FORMS = (
    "It may return an optimizer, (optimizer, scheduler), or "
    '{"optimizer": ..., "lr_scheduler": {"scheduler": ..., "interval": "step"}}'
)
_KEYS = {"scheduler", "interval", "frequency", "monitor", "strict", "name", "reduce_on_plateau"}


class SchedulerPlan(NamedTuple):
    """A scheduler of learning rates, and when it steps."""

    scheduler: Any
    """A scheduler of PyTorch, or an object with `step`, `state_dict` and `load_state_dict`."""

    per_step: bool
    """True: after optimizer steps. False: after the validation of an epoch."""

    frequency: int = 1
    """It steps after every so many steps or epochs."""

    monitor: str = ""
    """The metric whose value is passed to its `step`; empty: it follows none."""

    is_assumed: bool = False
    """Whether the recipe does not say when it steps."""

    written: str = ""
    """The name of the metric as the recipe writes it, if that is another one."""

    is_strict: bool = True
    """Whether there must be that metric; without it, the scheduler does not step."""


class OptimizerPlan(NamedTuple):
    """An optimizer with its schedulers."""

    optimizer: torch.optim.Optimizer
    schedulers: tuple[SchedulerPlan, ...] = ()


Convert = Callable[[Any], torch.optim.Optimizer]
"""Makes an optimizer of PyTorch from what a recipe returned. Raises TypeError."""


def one_plan(result: Any, function: str, convert: Convert) -> OptimizerPlan:
    """Return the optimizer and the schedulers in the `result` of the recipe's `function`.

    Raises TrainingFailed for any other object, and for several optimizers.
    """
    optimizer, schedulers = _parts(result, function)
    if isinstance(optimizer, list | tuple):
        if len(optimizer) != 1:
            raise TrainingFailed(
                f"{function} gave {len(optimizer)} optimizers in a list: name them. Define "
                'optimizers(model, learning_rate), which returns {"name": optimizer, ...}, and '
                "step(model, batch, optimizer), which is called once for each name."
            )
        optimizer = optimizer[0]
    try:
        converted = convert(optimizer)
    except TypeError as error:
        raise TrainingFailed(f"{error} {_FORMS}.") from error
    if not isinstance(schedulers, list | tuple):
        schedulers = () if schedulers is None else (schedulers,)
    return OptimizerPlan(converted, tuple(_scheduler(each, function) for each in schedulers))


def named_plans(result: Any, function: str, convert: Convert) -> dict[str, OptimizerPlan]:
    """Return the optimizers by name in the `result` of the recipe's `optimizers`.

    Raises TrainingFailed if it is no such dictionary, or if two optimizers have one parameter.
    """
    if not isinstance(result, Mapping) or not result or not all(map(_is_name, result)):
        raise TrainingFailed(
            f"{function} gave {_kind(result)}: it must return a dictionary "
            '{"generator": optimizer, "discriminator": optimizer}. The names are those that '
            "step(model, batch, optimizer) gets, in this order."
        )
    plans = {
        name: one_plan(value, f"{function}[{name!r}]", convert) for name, value in result.items()
    }
    owner: dict[int, str] = {}
    for name, plan in plans.items():
        for group in plan.optimizer.param_groups:
            for parameter in group["params"]:
                if owner.setdefault(id(parameter), name) != name:
                    raise TrainingFailed(
                        f"{function} gives a parameter of shape {tuple(parameter.shape)} to the "
                        f"optimizers {owner[id(parameter)]!r} and {name!r}: each parameter "
                        "belongs to one optimizer."
                    )
    return plans


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and name.isidentifier()


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}" if value or not isinstance(value, Mapping) else "no entry"


def _parts(result: Any, function: str) -> tuple[Any, Any]:
    """Return optimizer (or a list of them) and schedulers of any form."""
    match result:
        case Mapping() if "optimizer" in result:
            if unknown := result.keys() - {"optimizer", "lr_scheduler", "frequency"}:
                raise TrainingFailed(
                    f"{function} gave a dictionary with {_listed(unknown)}, which means nothing "
                    f"here. {_FORMS}."
                )
            if result.get("frequency", 1) != 1:
                raise TrainingFailed(
                    f"{function} gave an optimizer with a frequency: each optimizer takes one "
                    "step per batch. Return a loss without gradients in the others, or leave it "
                    "out."
                )
            return result["optimizer"], result.get("lr_scheduler")
        case tuple() | list() if len(result) == 2:
            return result[0], result[1]
        case tuple() | list():
            return result, None
        case _:
            return result, None


def _scheduler(value: Any, function: str) -> SchedulerPlan:
    options: Mapping[str, Any] = value if isinstance(value, Mapping) else {"scheduler": value}
    if unknown := options.keys() - _KEYS:
        raise TrainingFailed(
            f"{function} gave a scheduler with {_listed(unknown)}, which means nothing here. "
            f"Known are {_listed(_KEYS)}."
        )
    scheduler = options.get("scheduler")
    for method in ("step", "state_dict", "load_state_dict"):
        if not callable(getattr(scheduler, method, None)):
            raise TrainingFailed(
                f"{function} gave a {type(scheduler).__name__} as scheduler, which has no "
                f"{method}(). {_FORMS}."
            )
    follows = isinstance(scheduler, lr_scheduler.ReduceLROnPlateau)
    follows = follows or bool(options.get("reduce_on_plateau"))
    monitor = str(options.get("monitor") or "validation/loss") if follows else ""
    interval = options.get("interval") or ("step" if isinstance(scheduler, PER_BATCH) else "epoch")
    if interval not in ("step", "epoch"):
        raise TrainingFailed(
            f'{function} gave a scheduler with the interval {interval!r}: choose "step" or "epoch".'
        )
    if follows and interval == "step":
        raise TrainingFailed(
            f"{function} gave a {type(scheduler).__name__} with the interval step: it follows "
            f"{monitor}, which there is once per epoch."
        )
    frequency = options.get("frequency", 1)
    if not isinstance(frequency, int) or frequency < 1:
        raise TrainingFailed(
            f"{function} gave a scheduler with the frequency {frequency!r}: choose a whole number "
            "from 1."
        )
    is_assumed = not options.get("interval") and not follows
    return SchedulerPlan(
        scheduler,
        interval == "step",
        frequency,
        monitor,
        is_strict=options.get("strict") is not False,
        is_assumed=is_assumed,
    )


def _listed(names: Sequence[str] | set[str]) -> str:
    return ", ".join(repr(name) for name in sorted(map(str, names)))
