"""The window is closed or killed during a run: the run goes on, and another window shows it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine import client
from engine.messages.commands import Stop
from engine.messages.events import CacheEmptied, CheckpointSaved, Paused, Resumed
from engine.processes.process import is_alive
from engine.runs.run_state import RunState
from gui.app import AppController
from gui.style.theme import ThemeController
from tests.gui.test_end_to_end import Spectator
from tests.support.runs import (
    curve,
    is_training,
    spec,
    wait_for,
    wait_for_end,
    wait_for_run,
    wait_until_gone,
)

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(__file__).parent.parent.parent

START_IN_WINDOW = """
import os, sys
from PySide6.QtCore import QTimer
from engine import client
from engine.runs.run_state import RunState
from gui.app import AppController
from gui.style.theme import ThemeController
from gui.window.application import application
qt_app = application(["traindeck"])
app = AppController(ThemeController(qt_app))
qt_app.aboutToQuit.connect(app.shut_down)
app.window.show()
app.form.load(client.RunSpec(**{spec!r}))
app.form.start()
qt_app.exec()
"""
"""A window in which the form was filled in and Start was clicked."""


@contextmanager
def window(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A window in a process of its own."""
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | {"QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def watches(process: subprocess.Popen[bytes], run_id: str) -> bool:
    """Whether the window has the run's store open."""
    assert process.poll() is None, process.communicate()
    files = {Path(file.path).parent.name for file in psutil.Process(process.pid).open_files()}
    return run_id in files


def test_a_run_goes_on_when_its_window_is_killed_or_closed(
    qtbot: QtBot, qapp: QApplication
) -> None:
    """A second window, in this process, shows every point, and all its buttons work."""
    wanted = spec(
        "endless_counter", "torch/single", epochs=1_000_000
    )  # few points per read: all are shown
    fields = {"recipe": wanted.recipe, "strategy": wanted.strategy, "devices": wanted.devices}
    code = START_IN_WINDOW.format(spec=fields | {"epochs": wanted.epochs, "batch_size": 32})
    with window("-c", code) as first:
        run_id = wait_for_run(first)
        info = wait_for(run_id, is_training)
        wait_for(run_id, lambda _: watches(first, run_id))
        first.kill()
        first.wait()
        killed = time.monotonic()
    before = client.get_run(run_id).status.step
    wait_for(run_id, lambda now: now.status.step > before)

    app = AppController(ThemeController(qapp))
    try:
        seen = Spectator(app)
        app.window.show()
        app.open(run_id)
        qtbot.waitUntil(lambda: len(seen.steps) > before)
        print(f"another window shows it {time.monotonic() - killed:.2f} s after the first died")
        _click_everything(app, seen, qtbot)
        assert seen.steps == list(range(1, len(seen.steps) + 1)), "every point, none twice"
    finally:
        app.window.close()
        app.shut_down()
        app.window.deleteLater()
    before = client.get_run(run_id).status.step
    wait_for(run_id, lambda now: now.status.step > before)

    now = client.get_run(run_id).status
    assert is_alive(now.supervisor_pid, now.supervisor_created)
    assert (now.attempt, now.worker_pids) == (1, info.status.worker_pids), "the same processes"
    client.send(run_id, Stop())
    ended = wait_for_end(run_id)
    assert ended.state is RunState.STOPPED
    assert curve(ended, "train/loss")[0] == list(range(1, ended.status.step + 1))
    wait_until_gone(ended)


def _click_everything(app: AppController, seen: Spectator, qtbot: QtBot) -> None:
    """Click all buttons of a run that trains, except Stop."""
    controls = app.controls
    for button, text, answer in (
        (controls.checkpoint, "Checkpoint", CheckpointSaved),
        (controls.empty_cache, "Empty cache", CacheEmptied),
        (controls.pause, "Pause", Paused),
        (controls.pause, "Resume", Resumed),
    ):
        qtbot.waitUntil(lambda b=button, t=text: b.isEnabled() and b.text() == t)
        button.click()
        qtbot.waitUntil(lambda kind=answer: kind in seen.events)
