"""The table of thousands of runs: filter, sort, group and scroll, beside SQLite and a plain table.

`python -m benchmarks.runs_table [--runs 5000]` makes the runs up in memory, and prints the median
time of each step with that of its peer in the same process. A frame has 16.7 ms.
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QApplication, QHeaderView, QTableView, QWidget

from engine.runs.best_metrics import BestFigure
from engine.runs.run_info import RunInfo
from engine.runs.run_notes import RunNotes
from engine.runs.run_state import RunState, RunStatus
from engine.runs.table.columns import columns_of
from engine.runs.table.filter import compile_filter
from engine.spec.run_spec import RunSpec
from gui.runs_table.arrangement import Query, arrange
from gui.runs_table.table_view import RunsTableView
from gui.style.theme import DARK
from gui.window.application import application

REPEATS = 9
FRAMES = 60
SIZE = (1200, 700)
EXPRESSION = "lr < 1e-2 and val/accuracy > 0.7 and state == finished"
COLUMNS = ("id", "name", "state", "strategy", "learning_rate", "batch_size", "accuracy", "loss")


def make(count: int) -> list[RunInfo]:
    """`count` runs, newest first."""
    draw = random.Random(0)
    found = []
    for number in range(count, 0, -1):
        spec = RunSpec(
            recipe="digits",
            strategy=draw.choice(("torch/ddp", "torch/single")),
            devices=("cpu:0",),
            name=f"sweep {number}",
            learning_rate=10 ** draw.uniform(-4, -1),
            batch_size=2 ** draw.randint(4, 10),
            settings={"width": draw.choice((32, 64, 128))},
        )
        accuracy, loss = draw.uniform(0.5, 0.99), draw.uniform(0.1, 2.0)
        state = draw.choice((RunState.FINISHED, RunState.STOPPED, RunState.FAILED))
        status = RunStatus(
            state=state,
            started=1e9 + number,
            attempt_started=1e9 + number,
            updated=1e9 + number + 60,
            metrics={"train/loss": loss, "validation/accuracy": accuracy},
        )
        best = {"validation/accuracy": BestFigure(accuracy, 10)}
        found.append(RunInfo(str(number), Path(), spec, status, state, "", RunNotes(), best))
    return found


def milliseconds(work: Callable[[], object]) -> float:
    """The median time of `work`."""
    taken = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work()
        taken.append((time.perf_counter() - begin) * 1000)
    return statistics.median(taken)


def cells_of(info: RunInfo) -> tuple[object, ...]:
    """What the peers hold of a run."""
    metrics = info.status.metrics
    return (
        *(int(info.id), info.name, str(info.state), info.spec.strategy),
        *(info.spec.learning_rate, info.spec.batch_size),
        *(metrics["validation/accuracy"], metrics["train/loss"]),
    )


def database(infos: list[RunInfo]) -> sqlite3.Connection:
    """The same runs in a table of SQLite, in memory."""
    connection = sqlite3.connect(":memory:")
    connection.execute(f"CREATE TABLE run ({', '.join(COLUMNS)})")
    marks = ", ".join("?" * len(COLUMNS))
    connection.executemany(f"INSERT INTO run VALUES ({marks})", map(cells_of, infos))
    return connection


def plain_table(infos: list[RunInfo]) -> QTableView:
    """Qt's own table with the same rows."""
    model = QStandardItemModel(len(infos), len(COLUMNS))
    for row, info in enumerate(infos):
        for column, value in enumerate(cells_of(info)):
            item = QStandardItem()
            item.setData(value, Qt.ItemDataRole.DisplayRole)
            model.setItem(row, column, item)
    view = QTableView()
    view.setModel(model)
    model.setParent(view)
    view.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
    view.verticalHeader().setDefaultSectionSize(25)
    view.setVerticalScrollMode(QTableView.ScrollMode.ScrollPerPixel)
    return view


def scroll(view: QTableView, pixels: int) -> float:
    """The median time from a scroll to the finished picture; Qt moves what stays in sight."""
    view.resize(*SIZE)
    view.show()
    bar = view.verticalScrollBar()
    QApplication.processEvents()
    taken = []
    for frame in range(FRAMES):
        begin = time.perf_counter()
        bar.setValue(frame * pixels)
        QApplication.processEvents()
        taken.append((time.perf_counter() - begin) * 1000)
    view.hide()
    return statistics.median(taken)


def show(name: str, ours: float, peer: float, peer_name: str) -> None:
    """Print one line."""
    print(f"{name:34} {ours:7.2f} ms   {peer_name:24} {peer:7.2f} ms   ratio {ours / peer:.2f}")


def main() -> None:
    """Print a line for each step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5000)
    count = parser.parse_args().runs
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application(["benchmark"])
    infos = make(count)
    columns, stored = columns_of(infos), database(infos)
    where = "learning_rate < 1e-2 AND accuracy > 0.7 AND state = 'finished'"
    passes = compile_filter(EXPRESSION, columns)
    show(
        "filter",
        milliseconds(lambda: [info for info in infos if passes(info)]),
        milliseconds(lambda: stored.execute(f"SELECT * FROM run WHERE {where}").fetchall()),
        "SQLite, SELECT WHERE",
    )
    plain = plain_table(infos)
    query = Query(sort="learning_rate")
    show(
        "everything, sorted",
        milliseconds(lambda: arrange(infos, query, {})),
        milliseconds(lambda: sort_both_ways(plain)),
        "QStandardItemModel",
    )
    grouped = Query(group="settings/width", sort="best(validation/accuracy)")
    grouping = "SELECT strategy, avg(accuracy), avg(loss) FROM run GROUP BY strategy"
    show(
        "everything, grouped with means",
        milliseconds(lambda: arrange(infos, grouped, {})),
        milliseconds(lambda: stored.execute(grouping).fetchall()),
        "SQLite, GROUP BY",
    )
    curve = [float(number % 7) for number in range(40)]
    ours = RunsTableView(lambda info, name: curve, DARK)
    arranged = arrange(infos, Query(), {})
    show(
        "new rows in the table",
        milliseconds(lambda: ours.runs.replace(arranged)),
        milliseconds(lambda: plain.setModel(plain.model())),
        "QTableView.setModel",
    )
    ours.show_rows(arranged)
    other: QWidget = plain
    for name, pixels in (("a frame: three rows further", 75), ("a frame: a page further", 660)):
        show(name, scroll(ours, pixels), scroll(plain, pixels), "QTableView, text only")
    for view in (ours, other):
        view.deleteLater()


def sort_both_ways(view: QTableView) -> None:
    """The first order is that of another column, so that the second one has something to do."""
    view.sortByColumn(4, Qt.SortOrder.AscendingOrder)
    view.sortByColumn(0, Qt.SortOrder.DescendingOrder)


if __name__ == "__main__":
    main()
