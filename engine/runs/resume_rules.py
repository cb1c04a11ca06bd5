"""Which settings may change when a run resumes from a checkpoint."""

from __future__ import annotations

from engine.runs.checkpoint_files import Manifest
from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState
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
    if manifest is None:
        return found
    theirs, ours = (name.partition("/")[0] for name in (manifest.strategy, spec.strategy))
    if theirs != ours:
        text = f"{spec.strategy} cannot read a checkpoint of {manifest.strategy}: "
        found.append(Problem("strategy", f"{text}choose a {theirs} strategy."))
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
    return found + _length_problems(info, spec, manifest)


def _length_problems(info: RunInfo, spec: RunSpec, manifest: Manifest) -> list[Problem]:
    done = manifest.position.epoch
    shortened = spec.epochs < info.spec.epochs
    found = []
    if spec.epochs <= done and (shortened or info.state is RunState.FINISHED):
        text = f"{done} epoch{'s are' if done > 1 else ' is'} done at this checkpoint: to go on "
        found.append(Problem("epochs", f"{text}from there, choose more epochs than that."))
    rebatched = spec.batch_size != info.spec.batch_size
    if rebatched and manifest.position.batch and not manifest.batch_size:
        text = "This checkpoint lies within an epoch and does not say in which batches: choose "
        found.append(Problem("batch_size", f"{text}one at the end of an epoch."))
    return found
