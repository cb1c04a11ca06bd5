"""Runs that nobody trained: their folders are written by the test."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from engine.messages.events import (
    AttemptStarted,
    EpochEnded,
    Metrics,
    Points,
    RunEnded,
    TrainingStarted,
)
from engine.runs.store import RunStore
from engine.spec.catalog import recipe
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import write_spec
from engine.system import paths
from engine.system.process import created

BEGIN = 1_760_000_000.0


def write_run(
    state: str,
    losses: tuple[float, ...] = (),
    *,
    metric_directions: dict[str, str] | None = None,
    **spec: Any,
) -> Path:
    """The folder of a run with a validation loss per epoch of 10 steps; one in the state
    `running` has this process as its supervisor."""
    folder = paths.create_run_folder()
    wanted = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",), **spec)
    write_spec(folder, wanted, recipe("digits"))
    pid = os.getpid()
    store = RunStore(folder)
    store.append(AttemptStarted(1, pid, created(pid)), BEGIN)
    started = TrainingStarted(
        0, 10, 2, 1, parameters=650, metric_directions=metric_directions or {}
    )
    store.append(started, BEGIN)
    for epoch, loss in enumerate(losses, 1):
        now, step = BEGIN + epoch, 10 * epoch
        store.append(Metrics(now, now, [Points("validation/loss", [step], [loss])]), now)
        store.append(EpochEnded(epoch, step, {"validation/loss": loss}), now)
    if state != "running":
        store.append(RunEnded(state, ""), BEGIN + 100)
    store.close()
    return folder
