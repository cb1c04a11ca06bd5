"""The window in one of the states of the screenshots, and its visible widgets."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any
from unittest import mock

from PySide6.QtCore import QCoreApplication, QEventLoop
from PySide6.QtWidgets import QApplication, QWidget

from engine.messages.heartbeat import Heartbeat
from engine.system import paths
from gui.app import AppController
from gui.style.theme import ThemeController
from tools.screenshots.fake_telemetry import FakeTelemetry
from tools.screenshots.pictures import State
from tools.screenshots.recording import Recording
from tools.screenshots.replayed_run import ReplayedRun, replay
from tools.screenshots.window_states import STATES

LONGEST = 240.0
"""Seconds until the window must show the runs."""

SIZE = (1280, 800)


_copies = tempfile.TemporaryDirectory(prefix="traindeck-replayed-")
_replayed: dict[tuple[str, float], tuple[ReplayedRun, Path]] = {}
"""Runs that are over, with a copy of their folder, by name and age: a replay takes 0.2 s."""


def _replay_once(recording: Recording, **options: Any) -> ReplayedRun:
    """As `replay` does; a run that is over is replayed once, and copied from then on."""
    if options.keys() != {"ago"}:
        return replay(recording, **options)
    key = (f"{recording.spec.name} {len(recording.moments)}", options["ago"])
    if key not in _replayed:
        made = replay(recording, **options)
        copy = Path(_copies.name) / f"{len(_replayed)}"
        _replayed[key] = made, shutil.copytree(made.folder, copy)
        return made
    made, copy = _replayed[key]
    folder = paths.create_run_folder()
    shutil.copytree(copy, folder, dirs_exist_ok=True)
    return made._replace(id=folder.name, folder=folder)


@contextmanager
def window_in_state(state: State, qt_app: QApplication) -> Iterator[AppController]:
    """Open the window in `state`, as the screenshot shows it, at the smallest supported size."""
    with mock.patch("tools.screenshots.window_states.replay", _replay_once):
        stage = STATES[state]()
    app = AppController(ThemeController(qt_app), FakeTelemetry(stage.machine, stage.seconds_before))
    try:
        listed: list[object] = []
        app.engine_client.runs_listed.connect(listed.append)
        app.window.resize(*SIZE)
        app.window.show()
        if stage.live is not None:
            Heartbeat(stage.live.folder).beat()
        if stage.run_id is not None:
            app.open(stage.run_id)
        _wait(lambda: bool(listed))
        if stage.live is not None:
            stage.live.append_rest()
            app.rooms.run.reader.poll()
        stage.subject(app)
        settle(app)
        yield app
    finally:
        app.window.close()
        app.shut_down()
        app.window.deleteLater()


def settle(app: AppController) -> None:
    """Until the plots are drawn."""
    for _ in range(2):
        QCoreApplication.processEvents()
        for _ in range(12):
            app.rooms.run.plots.tick()
            app.rooms.runs.comparison.plots.tick()
    QCoreApplication.processEvents()


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST
    while not condition():
        assert time.monotonic() < deadline, "the window did not show the runs in time"
        QCoreApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)


def visible_widgets(window: QWidget) -> list[QWidget]:
    """Return every visible widget, without the inner parts of Qt's widgets."""
    return [each for each in window.findChildren(QWidget) if each.isVisible() and not _own(each)]


def _own(widget: QWidget | None) -> bool:
    """Return whether `widget` is an inner part of a Qt widget, such as the field of a spin box."""
    while widget is not None:
        if widget.objectName().startswith("qt_"):
            return True
        parent = widget.parentWidget()
        inside = type(parent).__name__ in ("QTabBar", "QLineEdit") and parent is not None
        if inside or type(widget).__name__ in ("QScrollBar", "QHeaderView"):
            return True
        widget = parent
    return False


def plain(text: str) -> str:
    """What is read of `text`, which may be rich."""
    return unescape(re.sub(r"<[^>]*>", " ", text)) if "<" in text else text


def called(widget: QWidget) -> str:
    """What to call a widget in a failed test."""
    name = widget.objectName() or widget.accessibleName()
    return f"{type(widget).__name__}({name}) in {type(widget.parentWidget()).__name__}"
