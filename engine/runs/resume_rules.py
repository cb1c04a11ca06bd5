"""What may change when a run resumes from a checkpoint, and what has changed since its start."""

from __future__ import annotations

from engine.runs.checkpoints.checkpoint_files import Manifest
from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState
from engine.spec import catalog, recipe_copy
from engine.spec.run_spec import RunSpec
from engine.spec.validation import Problem

_FIXED = {
    "recipe": "The checkpoint holds the model of its recipe: start a new run to train another one.",
    "seed": "The seed decides the order of the samples, and a checkpoint is a position in it: "
    "start a new run for another seed.",
    "optimizer": "The checkpoint holds the state of its optimizer: start a new run for "
    "another optimizer.",
}


def fixed(field: str) -> str:
    """Return why `field` must not change, in a sentence; empty when it may."""
    return _FIXED.get(field, "")


def recipe_changes(info: RunInfo) -> str:
    """Return in what the recipe of an existing run has changed since its copy; empty: in nothing,
    or it is gone."""
    try:
        return recipe_copy.changes(info.folder, catalog.recipe_of(info.spec))
    except catalog.UnknownName:  # it was built into an earlier version
        return ""


def change_problems(info: RunInfo, spec: RunSpec, manifest: Manifest | None) -> list[Problem]:
    """Return every reason why `spec` cannot resume the run of `info` from this checkpoint; None:
    from the beginning.

    `engine.client.check` returns the problems of `spec` alone.
    """
    before = info.spec
    found = [
        Problem(field, reason)
        for field, reason in _FIXED.items()
        if getattr(spec, field) != getattr(before, field)
    ]
    found += _limit_problems(info, spec)
    if manifest is None:
        return found
    theirs, ours = (name.partition("/")[0] for name in (manifest.strategy, spec.strategy))
    if theirs != ours:
        text = f"{spec.strategy} cannot read a checkpoint of {manifest.strategy}: "
        found.append(Problem("strategy", f"{text}choose a {theirs} strategy."))
    if ours == "script" and (text := _script_problem(spec, manifest)):
        found.append(Problem("devices", text))
    if "model.pt" in manifest.files:
        text = "This checkpoint is from before the first version of Traindeck, in a format that is "
        found.append(Problem("", f"{text}no longer read: start a new run."))
    if bool(spec.momentum) != bool(before.momentum):
        what = "the momentum of every weight" if before.momentum else "no momentum"
        text = f"The checkpoint holds {what}: it cannot be switched on or off within a run."
        found.append(Problem("momentum", text))
    if ours == "tf" and (spec.precision == "fp16") != (before.precision == "fp16"):
        text = "Under TensorFlow a checkpoint of fp16 differs from those of other precisions: "
        found.append(Problem("precision", f"{text}go on with {before.precision}."))
    return found if ours == "script" else found + _length_problems(info, spec, manifest)


def _limit_problems(info: RunInfo, spec: RunSpec) -> list[Problem]:
    """Return which limits leave the run nothing: it would end at once."""
    found = []
    minutes = info.status.seconds(info.status.updated) / 60
    if spec.time_limit_minutes and minutes >= spec.time_limit_minutes:
        text = f"The run has taken {minutes:.1f} min already: choose a longer limit, or none."
        found.append(Problem("time_limit_minutes", text))
    if spec.energy_limit_wh and (used := info.status.energy) >= spec.energy_limit_wh:
        text = f"The run has used {used:.1f} Wh already: choose a higher limit, or none."
        found.append(Problem("energy_limit_wh", text))
    return found


def _script_problem(spec: RunSpec, manifest: Manifest) -> str:
    """Return why a script cannot go on from a checkpoint of its calls: that of one process."""
    if manifest.replicas > 1:
        text = f"This checkpoint has the parts of {manifest.replicas} ranks"
        return f"{text}, which no script reads any more: resume from the beginning."
    if spec.strategy == "script/single" or len(spec.devices) == 1:
        return ""
    return "A script goes on from this checkpoint in one process: choose script/single."


def _length_problems(info: RunInfo, spec: RunSpec, manifest: Manifest) -> list[Problem]:
    done, steps = manifest.position.epoch, manifest.position.step
    shortened = spec.epochs < info.spec.epochs
    found = []
    if spec.steps:
        shortened = not info.spec.steps or spec.steps < info.spec.steps
        if spec.steps <= steps and (shortened or info.state is RunState.FINISHED):
            text = f"{steps} step{'s are' if steps > 1 else ' is'} done at this checkpoint: to go "
            found.append(Problem("steps", f"{text}on from there, choose more steps than that."))
    elif spec.epochs <= done and (shortened or info.state is RunState.FINISHED):
        text = f"{done} epoch{'s are' if done > 1 else ' is'} done at this checkpoint: to go on "
        found.append(Problem("epochs", f"{text}from there, choose more epochs than that."))
    rebatched = spec.batch_size != info.spec.batch_size
    if rebatched and manifest.position.batch and not manifest.batch_size:
        text = "This checkpoint lies within an epoch and does not say in which batches: choose "
        found.append(Problem("batch_size", f"{text}one at the end of an epoch."))
    return found
