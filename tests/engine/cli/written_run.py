"""Runs as the supervisor leaves them on disk, without a supervisor."""

from __future__ import annotations

import os
import time
from pathlib import Path

from engine.messages.events import AttemptStarted, Event, Progress, TrainingStarted
from engine.runs.store import RunStore
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import write_spec
from engine.system import paths
from engine.system.process import created

SPEC = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",), epochs=3)

RUNNING: tuple[Event, ...] = (
    AttemptStarted(attempt=1, supervisor_pid=os.getpid(), supervisor_created=created(os.getpid())),
    TrainingStarted(step=0, steps_per_epoch=10, epochs=3, replicas=1, parameters=99),
    Progress(epoch=2, step=12, samples_per_second=100.0, step_seconds=0.1, seconds_left=1.8),
)
"""A run that trains; this test process stands for its supervisor."""


class WrittenRun:
    """A run folder with a store that the test goes on writing."""

    def __init__(self, folder: Path) -> None:
        self.id = folder.name
        self.folder = folder
        self.store = RunStore(folder)

    def write(self, *events: Event) -> int:
        """Append events as the supervisor would; returns the number of the last one stored."""
        for event in events:
            self.store.append(event, time.time())
        self.store.commit()
        return self.store.last_seq()


def write_run(*events: Event) -> WrittenRun:
    """Make a run of `SPEC` with its events so far."""
    folder = paths.create_run_folder()
    write_spec(folder, SPEC, catalog.recipe(SPEC.recipe))
    run = WrittenRun(folder)
    run.write(*events)
    return run
