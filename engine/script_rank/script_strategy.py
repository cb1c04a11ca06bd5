"""The base class of the strategies of scripts: how many processes run the command, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from engine.spec.recipe_file import SCRIPT, RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.script_spec import DECIDED_BY_SCRIPT
from engine.spec.strategy import Strategy, WorkerPlan, one_process, one_process_per_device

_ON_REQUEST = "the weights of any other script are saved when asked, and every so many minutes"
_WITH_CALLS = {
    "checkpoint_steps": ("Saving every so many steps works", _ON_REQUEST),
    "checkpoint_epochs": ("Saving every so many epochs works", _ON_REQUEST),
    "checkpoint_best": ("Saving the best works", _ON_REQUEST),
}
"""Fields that only a script of one process with the calls of the module `traindeck` can follow."""


class ScriptStrategy(Strategy):
    """Runs the user's command as it is, in one process or in several."""

    recipe_frameworks: ClassVar[frozenset[str]] = frozenset({SCRIPT})
    needs = "1 or more devices of one kind"

    mode: ClassVar[str]
    """Whose variables the script's process gets: `single` (nobody's), `torchrun`, `tf_config`."""

    def refusal(self, field: str, spec: RunSpec) -> str:
        if field in DECIDED_BY_SCRIPT - {"workers_per_device"}:
            return "The script decides this: use its own options or change the script."
        match field:
            case "workers_per_device":
                return "A script has one process per device, or one for all of them."
            case "on_nan" if spec.on_nan == "skip":
                return "Only the script could leave out a step: choose continue or stop."
            case _:
                return super().refusal(field, spec)

    def script_refusal(self, field: str, recipe: RecipeInfo) -> str:
        if field in _WITH_CALLS and not recipe.uses_calls:
            what, otherwise = _WITH_CALLS[field]
            return f"{what} only with the calls of the module traindeck: {otherwise}."
        return ""


class OneProcess(ScriptStrategy):
    """One process that sees all devices."""

    def pool(self, devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
        return one_process(devices)


class ProcessPerDevice(ScriptStrategy):
    """One process per device; they find each other by the variables of their environment."""

    def pool(self, devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
        return one_process_per_device(devices)

    def refusal(self, field: str, spec: RunSpec) -> str:
        if field in _WITH_CALLS and len(spec.devices) > 1:
            what, otherwise = _WITH_CALLS[field]
            return f"{what} only in one process, with the calls of traindeck: {otherwise}."
        return super().refusal(field, spec)
