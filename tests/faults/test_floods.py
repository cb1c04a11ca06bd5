"""More points and more output than the window can show: nothing grows without limit.

How smooth the window stays, and what it costs the training: `python -m benchmarks.floods`.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing
from multiprocessing.connection import Pipe
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.files.log_tail import MAX_BYTES, MAX_LINE, LogTail
from engine.messages.channel import Channel, Hello
from engine.messages.events import (
    AttemptStarted,
    EpochEnded,
    Event,
    Metrics,
    Points,
    TrainingStarted,
)
from engine.messages.merged_metrics import count_points
from engine.processes.process import start_time
from engine.runs.store.run_store import RunStore
from engine.runs.store.store_follower import MOST_SHOWN
from engine.runs.store.store_reader import RunReader, StoredEvent
from engine.supervisor.inbox import MOST_UNREAD, Inbox, MessageReceived
from engine.worker import event_sender
from engine.worker.event_sender import EventSender
from gui.bridge.machines.machines import Machines
from gui.bridge.store_reader import StoreReader
from gui.log.event_model import MAX_ROWS, EventModel
from gui.log.log_view import MAX_LINES, LogView
from gui.run_view.loss_trend import MOST_LOSSES
from gui.run_view.run_figures import RunFigures
from gui.style.theme import ThemeController
from tests.support.recorded_runs import new_run_folder
from tests.support.runs import spec

MEGABYTE = 1 << 20
SECONDS = 60.0
"""Longest wait; only a test that fails gets there."""


def batch(first: int, size: int) -> Metrics:
    """`size` consecutive losses."""
    steps = list(range(first, first + size))
    return Metrics(1.0, 2.0, [Points("train/loss", steps, [float(step) for step in steps])])


def test_a_burst_of_output_is_shown_as_far_as_a_log_is_kept(
    tmp_path: Path, qtbot: QtBot, qapp: QApplication
) -> None:
    log = LogView(ThemeController(qapp).current)
    qtbot.addWidget(log)
    path = tmp_path / "rank0.log"
    path.write_text("hello\n")
    tail = LogTail(path)
    log.append_output(0, tail.read())
    with path.open("a") as file:
        for number in range(100):
            file.write(f"burst {number:4} {'x' * 200}\n" * (MEGABYTE // 212))
    size = path.stat().st_size
    begun = time.thread_time()  # CPU time, so that other busy processes do not count
    lines = tail.read()
    while piece := tail.read():
        lines += piece
    assert time.thread_time() - begun < 5.0
    assert sum(map(len, lines)) < 2 * MAX_BYTES
    assert "bytes skipped: see" in lines[0]
    assert lines[-1].startswith("burst   99")
    log.append_output(0, lines)

    with path.open("a") as file:
        file.write("a" * MEGABYTE + "z\nafter that\n")
    assert path.stat().st_size > size
    shown: list[str] = []
    while "after that" not in shown:
        shown += tail.read()
    assert max(map(len, shown)) < MAX_LINE + 200
    assert shown[-1] == "after that"
    log.append_output(0, shown)
    assert log.blockCount() <= MAX_LINES
    assert len(log.toPlainText()) < 4 * MAX_BYTES


def test_a_line_that_grows_without_end_is_shown_once(tmp_path: Path) -> None:
    path = tmp_path / "rank0.log"
    path.touch()
    tail = LogTail(path)
    shown = []
    for _ in range(20):
        with path.open("a") as file:
            file.write("a" * (MAX_LINE // 3))
        shown += tail.read()
    with path.open("a") as file:
        file.write("end of it\nanother\n")
    shown += tail.read()
    assert len(shown) == 2
    assert shown[0].startswith("aaa")
    assert shown[1] == "another"


def test_half_a_million_points_are_all_kept_and_the_window_holds_a_part(
    qtbot: QtBot, qapp: QApplication
) -> None:
    wanted = spec("digits", "torch/single")
    folder = new_run_folder(wanted)
    reader, figures = StoreReader(Machines()), RunFigures()
    held: dict[str, int] = {}
    reader.curve.connect(lambda series, new: held.update({series: len(new.step)}))
    reader.points.connect(lambda series, new: held.update({series: held[series] + len(new.step)}))
    reader.curve.connect(figures.set_points)
    reader.points.connect(figures.add_points)
    reader.status_changed.connect(figures.show_info)
    most = 0
    with closing(RunStore(folder)) as store:
        me = os.getpid()
        store.append(AttemptStarted(1, me, start_time(me)), 1.0)
        store.append(TrainingStarted(0, 200_000, 9, 1, parameters=1), 1.0)
        reader.watch(folder.name)
        for second in range(100):
            store.append(batch(1 + second * 5000, 5000), 2.0)
            store.commit()
            reader.poll()
            most = max(most, held["train/loss"])
        reader.watch(None)
    assert 20_000 < most <= MOST_SHOWN + 20_000
    assert sum(len(steps) for steps, _ in figures._trend._losses) <= MOST_LOSSES
    with RunReader(folder) as stored:
        steps = np.concatenate([points.step for points in stored.batches("train/loss")])
    assert np.array_equal(steps, np.arange(1, 500_001)), "no point is missing, none is twice"


def test_the_table_of_events_forgets_the_oldest(qapp: QApplication) -> None:
    model = EventModel()
    for first in range(0, 2 * MAX_ROWS, 5000):
        model.append(
            [StoredEvent(n, 1.0, EpochEnded(n, n, {})) for n in range(first, first + 5000)]
        )
    assert model.rowCount() == MAX_ROWS


def test_what_a_worker_keeps_for_a_supervisor_that_does_not_read_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_sender, "MOST_POINTS", 100_000)
    ours, theirs = Pipe()
    with closing(ours), closing(theirs):
        sender = EventSender(Channel(ours), rank=0)
        last = EpochEnded(1, 1, {})
        for number in range(100):
            sender.put(batch(number * 10_000, 10_000))
        sender.put(last)
        kept = sum(count_points(waiting.message) for waiting in sender._waiting)
        assert 50_000 <= kept <= 110_000
        assert sender._waiting[-1].message == last
        theirs.close()
        sender._thread.join(SECONDS)


def test_a_supervisor_reads_no_faster_than_it_writes_and_loses_nothing() -> None:
    """The messages that it has not recorded yet wait in their worker."""
    inbox = Inbox()
    ours, theirs = Pipe()
    sent: list[Event] = [batch(number * 100, 100) for number in range(10 * MOST_UNREAD)]
    with closing(ours), closing(theirs):
        worker = Channel(theirs)
        inbox.connected(Hello(0), Channel(ours))
        thread = threading.Thread(target=lambda: [worker.send(event) for event in sent])
        thread.start()
        thread.join(0.5)
        assert thread.is_alive(), "the pipe is full"
        assert inbox._queue.qsize() <= MOST_UNREAD + 1
        received: list[object] = []
        while len(received) < len(sent):
            item = inbox.next(SECONDS)
            assert item is not None
            if isinstance(item, MessageReceived):
                received.append(item.message)
        thread.join(SECONDS)
    assert received == sent
