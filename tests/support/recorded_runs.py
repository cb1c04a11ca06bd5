"""Runs whose folder and events are written by a test: no supervisor or worker starts."""

from __future__ import annotations

import functools
import os
import time
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from engine.messages.events import (
    AttemptStarted,
    EpochEnded,
    Event,
    Metrics,
    Points,
    Progress,
    RunEnded,
    TrainingStarted,
)
from engine.processes.process import command_output, start_time
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import CheckpointInfo, Position
from engine.runs.store.run_store import RunStore
from engine.spec import catalog, spec_file
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import write_spec
from engine.system import paths

SPEC = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",), epochs=3)
OWN_RECIPES = Path(catalog.recipe(SPEC.recipe).path).parent
BEGIN = 1_760_000_000.0
"""Seconds since the epoch at which a run of `record_epochs` starts."""


def this_process_supervises(attempt: int = 1) -> AttemptStarted:
    """The event with which this test process becomes the supervisor of a run."""
    return AttemptStarted(attempt, os.getpid(), start_time(os.getpid()))


RUNNING: tuple[Event, ...] = (
    this_process_supervises(),
    TrainingStarted(step=0, steps_per_epoch=10, epochs=3, replicas=1, parameters=99),
    Progress(epoch=2, step=12, samples_per_second=100.0, step_seconds=0.1, seconds_left=1.8),
)
"""The events of a run that trains under this process."""


def new_run_folder(spec: RunSpec = SPEC, recipe: str = "") -> Path:
    """Create the folder of a new run with its spec, without a store.

    `recipe`: the one to copy, where that of the spec does not exist.
    """
    folder = paths.create_run_folder()
    with mock.patch.object(spec_file, "command_output", _output_once):
        write_spec(folder, spec, catalog.recipe(recipe or spec.recipe))
    return folder


def _output_once(command: Sequence[str], where: Path) -> str:
    """What git says of our own recipes is asked once: hundreds of tests record runs of them."""
    ask = _kept_output if where.is_relative_to(OWN_RECIPES) else command_output
    return ask(tuple(command), where)


_kept_output = functools.cache(command_output)


def save_checkpoint(folder: Path, step: int, size: int = 1000) -> CheckpointInfo:
    """Write a complete checkpoint, with `size` random bytes, into the folder of a run."""
    unfinished = checkpoint_files.begin(folder, step)
    (unfinished / "rank0").mkdir()
    (unfinished / "rank0" / "model.safetensors").write_bytes(os.urandom(size))
    return checkpoint_files.publish(
        folder, Position(1, 0, step), strategy="s", replicas=1, batch_size=1, parameters=1
    )


class RecordedRun:
    """A run folder with an open store that the test writes."""

    def __init__(self, spec: RunSpec = SPEC) -> None:
        self.folder = new_run_folder(spec)
        self.id = self.folder.name
        self.store = RunStore(self.folder)
        # Python 3.13 warns of a connection that is only forgotten.
        weakref.finalize(self, self.store._connection.close)

    def add(self, *events: Event) -> int:
        """Append events as the supervisor would; return the number of the last stored event."""
        for event in events:
            self.store.append(event, time.time())
        self.store.commit()
        return self.store.last_seq()

    def begin(self, attempt: int = 1) -> None:
        """The run trains, with this process as its supervisor."""
        self.add(this_process_supervises(attempt), TrainingStarted(0, 10, 2, 1, parameters=650))

    def add_points(self, series: str, steps: Iterable[int], value: float = 0.5) -> None:
        steps = list(steps)
        now = time.time()
        self.add(Metrics(now, now, [Points(series, steps, [value] * len(steps))]))

    def write_log(self, rank: int, text: str) -> None:
        with (self.folder / "logs" / f"rank{rank}.log").open("a", encoding="utf-8") as file:
            file.write(text)


def record_run(*events: Event) -> RecordedRun:
    """Make a run of `SPEC` with these events."""
    run = RecordedRun()
    run.add(*events)
    return run


def record_epochs(
    state: str,
    losses: tuple[float, ...] = (),
    *,
    metric_directions: dict[str, str] | None = None,
    **spec: Any,
) -> Path:
    """Return the folder of a run with a validation loss for each epoch of 10 steps.

    A run in the state `running` has this process as its supervisor.
    """
    folder = new_run_folder(
        RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",), **spec)
    )
    store = RunStore(folder)
    store.append(this_process_supervises(), BEGIN)
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
