"""The comparison of thousands of runs: how long the window stands still, and until all is drawn.

`python -m benchmarks.comparison [--runs 5000] [--points 200]` makes runs up in a temporary data
folder, chooses all of them in the table of runs, shows the means of groups, and the runs again. It
prints for each of these the longest time in which the window answered nothing, and when the last
curve was there.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from engine.messages.events import (
    AttemptStarted,
    EpochEnded,
    Metrics,
    Points,
    RunEnded,
    TrainingStarted,
)
from engine.runs.run_index import RunIndex
from engine.runs.store.run_store import RunStore
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import write_spec
from engine.system import paths
from gui.bridge.background import Background
from gui.compare.comparison import Comparison
from gui.run_list.chosen_runs import ChosenRuns
from gui.runs_table.runs_page import RunsPage
from gui.style.theme import DARK
from gui.window.application import application

SIZE = (1280, 800)
KINDS = 20
"""Runs that are written; the others are copies of them with other settings."""

LONGEST = 600.0
"""Seconds after which a step is given up."""


class Measured(NamedTuple):
    """Seconds."""

    standstill: float
    """The longest time of the window's thread between two turns of its event loop."""

    computing: float
    """The same, of computing alone: other programs do not count."""

    whole: float
    """Until everything is drawn."""


class Standstill:
    """Measures the event loop of the window."""

    def __init__(self) -> None:
        self._longest = self._busiest = 0.0
        self._last = self._now()
        self._timer = QTimer()
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._beat)

    def measure(self, begin: Callable[[], object], is_done: Callable[[], bool]) -> Measured:
        """Call `begin`, and let the window work until `is_done`."""
        self._longest = self._busiest = 0.0
        self._last = first = self._now()
        self._timer.start()
        begin()
        while not is_done():
            QApplication.processEvents()
            if self._last[0] - first[0] > LONGEST:
                raise SystemExit(f"It was not done after {LONGEST:g} s.")
        self._beat()
        self._timer.stop()
        return Measured(self._longest, self._busiest, self._last[0] - first[0])

    def _now(self) -> tuple[float, float]:
        return time.perf_counter(), time.thread_time()

    def _beat(self) -> None:
        now = self._now()
        self._longest = max(self._longest, now[0] - self._last[0])
        self._busiest = max(self._busiest, now[1] - self._last[1])
        self._last = now


def make_runs(count: int, points: int) -> None:
    """Write `count` ended runs with four curves each."""
    draw = random.Random(0)
    written: list[Path] = []
    for number in range(count):
        spec = RunSpec(
            recipe="digits",
            strategy="torch/single",
            devices=("cpu:0",),
            name=f"sweep {number}",
            learning_rate=10 ** draw.uniform(-4, -1),
            settings={"width": draw.choice((32, 64, 128))},
        )
        folder = paths.create_run_folder()
        write_spec(folder, spec, catalog.recipe("digits"))
        if len(written) < KINDS:
            write_store(folder, points, draw)
            written.append(folder)
        else:
            shutil.copy(draw.choice(written) / "run.sqlite", folder)


def write_store(folder: Path, points: int, draw: random.Random) -> None:
    """Write the events and curves of an ended run."""
    store = RunStore(folder)
    now = 1.76e9
    store.append(AttemptStarted(1, 1, now), now)
    store.append(TrainingStarted(0, 10, points // 10, 1, parameters=650), now)
    steps = list(range(1, points + 1))
    for series in ("train/loss", "train/accuracy", "validation/loss", "validation/accuracy"):
        values = [draw.random() / step for step in steps]
        store.append(Metrics(now, now + points, [Points(series, steps, values)]), now)
    store.append(EpochEnded(1, points, {"validation/loss": 0.1}), now)
    store.append(RunEnded("finished", ""), now + points)
    store.close()


def show(name: str, found: Measured) -> None:
    """Print one line."""
    longest, computing = found.standstill * 1000, found.computing * 1000
    print(
        f"{name:20} longest standstill {longest:6.0f} ms ({computing:5.0f} ms of computing)   "
        f"all there after {found.whole:6.1f} s",
        flush=True,
    )


def main() -> None:
    """Print a line for each step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--points", type=int, default=200)
    given = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    with tempfile.TemporaryDirectory() as home:
        os.environ["TRAINDECK_HOME"] = home
        make_runs(given.runs, given.points)
        compare(given.runs)


def compare(count: int) -> None:
    """Choose all runs, group them, and let go of them."""
    application(["benchmark"])
    infos = RunIndex().runs()
    background, chosen = Background(), ChosenRuns()
    comparison = Comparison(chosen, background, DARK)
    page = RunsPage(chosen, comparison, background, DARK)
    page.resize(*SIZE)
    page.show()
    comparison.show_runs(infos)
    page.show_runs(infos)
    while page.is_arranging or page.table.model().rowCount() < count:
        QApplication.processEvents()
    plots = comparison.plots

    def is_drawn() -> bool:
        return plots.is_settled and not (comparison.is_reading or page.is_arranging)

    measure = Standstill().measure
    ids = [info.id for info in infos]
    show("all chosen", measure(lambda: chosen.choose(ids), is_drawn))
    show("side by side", measure(lambda: page.set_comparing(True), is_drawn))
    show("the table again", measure(lambda: page.set_comparing(False), is_drawn))
    page.group.setCurrentIndex(page.group.findData("settings/width"))
    while page.is_arranging:
        QApplication.processEvents()
    show("means of groups", measure(page.bands.click, is_drawn))
    show("the runs again", measure(page.bands.click, is_drawn))
    show("none chosen", measure(lambda: chosen.keep_only(()), is_drawn))
    page.hide()
    background.finish()


if __name__ == "__main__":
    main()
