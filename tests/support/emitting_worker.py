"""A worker without a framework: it reports ten minutes of a training at once, when a test asks."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil

from engine.messages.events import (
    Metrics,
    Points,
    Progress,
    TrainingEnded,
    TrainingStarted,
    WorkerReady,
)
from engine.processes.process import leave
from engine.worker import signals
from engine.worker.session import WorkerSession

NOTES = "TEST_NOTES"
"""The environment variable with the folder for the notes, which is on another disk than the run."""

GO, EMITTED, END = "go", "emitted", "end"
"""Names of the notes: emit now, all is emitted, end now."""

SERIES = [f"train/{number}" for number in range(20)]
REPORTS = 6000
STEPS = 5
"""Steps in a report; so there are 1,000 points a second of 600 seconds."""

BEGIN = 1_700_000_000.0


def report(number: int) -> Metrics:
    """The points of a tenth of a second."""
    steps = list(range(STEPS * number + 1, STEPS * (number + 1) + 1))
    begin = BEGIN + number / 10
    values = [step / 7 for step in steps]
    return Metrics(begin, begin + 0.1, [Points(name, steps, values) for name in SERIES])


def main(folder: Path) -> None:
    """Report the start, wait for the notes, and end."""
    notes, total = Path(os.environ[NOTES]), REPORTS * STEPS
    session = WorkerSession(folder)
    signals.ignore_in_worker()
    session.emit(WorkerReady(0, session.devices, {}))
    session.emit(TrainingStarted(0, total, 1, 1, parameters=1, total_steps=total))
    _wait_for(notes / GO)
    before, begun = psutil.Process().memory_info().rss, time.perf_counter()
    for number in range(REPORTS):
        session.emit(report(number))
        session.emit(Progress(1, STEPS * (number + 1), 1.0, 0.02, 0.0))
    seconds = time.perf_counter() - begun
    mebibytes = (psutil.Process().memory_info().rss - before) / 2**20
    (notes / EMITTED).write_text(f"{seconds:.2f} s for all, {mebibytes:.0f} MiB more memory")
    _wait_for(notes / END)
    session.emit(TrainingEnded(total, completed=True))
    session.close()


def _wait_for(note: Path) -> None:
    while not note.exists():
        time.sleep(0.02)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    leave(0)
