"""What the tests of the window share: recorded runs that need no worker."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from engine import paths
from engine.catalog import recipe
from engine.events import AttemptStarted, Event, Metrics, Points, TrainingStarted
from engine.process import created
from engine.spec import RunSpec
from engine.spec_file import write_spec
from engine.store import RunStore

SPEC = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",), epochs=2)


class Recording:
    """A run whose supervisor is the test."""

    def __init__(self, spec: RunSpec) -> None:
        self.folder = paths.create_run_folder()
        self.id = self.folder.name
        write_spec(self.folder, spec, recipe(spec.recipe))
        self.store = RunStore(self.folder)

    def add(self, *events: Event) -> None:
        for event in events:
            self.store.append(event, time.time())
        self.store.commit()

    def begin(self, attempt: int = 1) -> None:
        """The run is being trained; its supervisor, this process, is alive."""
        pid = os.getpid()
        self.add(
            AttemptStarted(attempt, pid, created(pid)), TrainingStarted(0, 10, 2, 1, parameters=650)
        )

    def add_points(self, series: str, steps: Iterable[int], value: float = 0.5) -> None:
        steps = list(steps)
        now = time.time()
        self.add(Metrics(now, now, [Points(series, steps, [value] * len(steps))]))

    def write_log(self, rank: int, text: str) -> None:
        with (self.folder / "logs" / f"rank{rank}.log").open("a", encoding="utf-8") as file:
            file.write(text)


Record = Callable[..., Recording]


@pytest.fixture
def record(traindeck_home: Path) -> Iterable[Record]:
    """Makes recorded runs: `record()` or `record(spec)`."""
    made: list[Recording] = []

    def make(spec: RunSpec = SPEC) -> Recording:
        made.append(Recording(spec))
        return made[-1]

    yield make
    for recording in made:
        recording.store.close()
