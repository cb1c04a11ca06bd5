"""What the whole run is expected to take: time and energy."""

from __future__ import annotations

import msgspec

from engine.doctor.finding import Change, Finding
from engine.planning.checks.checkpoints import DiskFacts, automatic_saves, checkpoint_bytes
from engine.planning.checks.training import step_seconds
from engine.planning.short_run import ShortRun
from engine.system.units import duration

NAME = "whole run"


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """Time and energy of a whole run, in seconds and watt-hours; 0: not known."""

    seconds: float = 0.0
    training: float = 0.0
    validation: float = 0.0
    checkpoints: float = 0.0
    wh: float = 0.0
    steps: int = 0
    saves: int = 0
    """Automatic checkpoints."""


def expectation(run: ShortRun, disk: DiskFacts) -> Expectation:
    """Return what the steps, the validations and the checkpoints of the whole run take."""
    spec, step = run.spec, step_seconds(run)
    steps = spec.steps or run.steps_in_all
    if not (steps and step):
        return Expectation()
    size = run.steps_per_epoch
    epochs = steps / size if size else 0.0
    validations = -(-steps // size) if size else 1
    training = steps * step
    validation = (
        validations
        * run.measured.get("validation/batches", 0.0)
        * run.measured.get("validation/batch_seconds", 0.0)
    )
    saves = automatic_saves(spec, training + validation, steps, epochs)
    save = checkpoint_bytes(run) / disk.bytes_per_second if disk.bytes_per_second else 0.0
    checkpoints = (saves + 1) * save
    start = run.first_step_seconds
    return Expectation(
        seconds=start + training + validation + checkpoints,
        training=training,
        validation=validation,
        checkpoints=checkpoints,
        wh=run.joules * spec.batch_size * steps / 3600,
        steps=steps,
        saves=saves,
    )


def whole_run_finding(run: ShortRun, expected: Expectation) -> Finding:
    """Return the expected time and energy, and which limit would end the run before that."""
    spec = run.spec
    if not expected.seconds:
        why = "the number of its steps is not known" if step_seconds(run) else "no step was timed"
        text = f"How long the whole run takes cannot be said: {why}."
        advice = "Choose a number of steps." if step_seconds(run) else ""
        return Finding(name=NAME, level="hint", text=text, advice=advice)
    parts = [f"{duration(expected.training)} of steps"]
    parts += [f"{duration(expected.validation)} of validation"] * (expected.validation >= 1)
    parts += [f"{duration(expected.checkpoints)} of checkpoints"] * (expected.checkpoints >= 1)
    text = (
        f"The {expected.steps:,} steps of the whole run are expected to take "
        f"{duration(expected.seconds)} ({', '.join(parts)})"
    )
    if expected.wh:
        text += f", and its GPUs {expected.wh:,.1f} Wh"
    limit = spec.time_limit_minutes * 60
    if limit and expected.seconds > limit:
        minutes = round(1.2 * expected.seconds / 60 + 0.5)
        return Finding(
            name=NAME,
            level="warning",
            text=f"{text}; the time limit of {spec.time_limit_minutes:g} min ends it before.",
            advice="Allow more time, or train fewer steps.",
            change=Change(f"Allow {minutes} min", {"time_limit_minutes": float(minutes)}),
        )
    if spec.energy_limit_wh and expected.wh > spec.energy_limit_wh:
        wh = round(1.2 * expected.wh + 0.5)
        return Finding(
            name=NAME,
            level="warning",
            text=f"{text}; the energy limit of {spec.energy_limit_wh:g} Wh ends it before.",
            advice="Allow more energy, or train fewer steps.",
            change=Change(f"Allow {wh} Wh", {"energy_limit_wh": float(wh)}),
        )
    return Finding(name=NAME, level="ok", text=f"{text}.")
