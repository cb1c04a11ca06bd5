"""Sweeps whose journal and runs are written by a test: no driver and no worker starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from optuna.trial import TrialState

from engine.spec.field_info import Setting
from engine.spec.run_spec import RunSpec
from engine.sweeps import sweep as sweeps
from engine.sweeps.ranges import Choices, Interval, Range
from engine.sweeps.study import REASON, RUN, open_study, suggest
from engine.sweeps.sweep import Sweep
from tests.support.recorded_runs import record_epochs

BASE = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",), epochs=3)
RANGES: Mapping[str, Range] = {
    "learning_rate": Interval(1e-4, 0.1, log=True),
    "width": Choices((16, 32, 64)),
    "optimizer": Choices(("sgd", "adamw")),
}


def value_of(settings: Mapping[str, Setting]) -> float:
    """Return the result of a made-up trial: the learning rate matters most."""
    return float(settings["learning_rate"]) * 10 + 1 / float(settings["width"])


def make_sweep(
    count: int,
    *,
    trials: int | None = None,
    failed: Sequence[int] = (),
    with_runs: bool = True,
    epochs: int = 3,
) -> Path:
    """Return the folder of a sweep, `count` of whose trials are over; those in `failed` have.

    The validation loss of each run falls to the value of its trial.
    """
    sweep = Sweep(
        base=BASE,
        ranges=dict(RANGES),
        own_settings=("width",),
        trials=trials or count,
        sampler="random",
    )
    folder = sweeps.create(sweep)
    study = open_study(folder, sweep)
    for _ in range(count):
        trial = study.ask()
        settings = suggest(trial, sweep.ranges)
        value = value_of(settings)
        run = str(trial.number + 1)
        if with_runs:
            losses = tuple(value + epochs - epoch for epoch in range(1, epochs + 1))
            made = record_epochs("finished", losses)
            run = made.name
        trial.set_user_attr(RUN, run)
        if trial.number in failed:
            trial.set_user_attr(REASON, "The loss is NaN.")
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, value)
    return folder
