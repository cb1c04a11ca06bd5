"""A real window, real clicks and real workers on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from engine import client
from engine.messages.commands import Stop
from engine.messages.events import CacheEmptied, CheckpointSaved, Paused
from engine.runs.run_state import RunState
from engine.runs.store import store_follower
from engine.runs.store.stored_points import StoredPoints
from gui.app import AppController
from gui.bridge.telemetry_reader import TelemetryReader
from tests.gui.conftest import OpenApp

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("processes")]


class Spectator:
    """What has come out of a window's reader."""

    def __init__(self, app: AppController) -> None:
        self.steps: list[int] = []
        self.events: list[type] = []
        self.state: RunState | None = None
        app.rooms.run.reader.curve.connect(self._curve)
        app.rooms.run.reader.points.connect(self._points)
        app.rooms.run.reader.events.connect(
            lambda new: self.events.extend(type(e.event) for e in new)
        )
        app.rooms.run.reader.status_changed.connect(lambda info: setattr(self, "state", info.state))

    def _curve(self, series: str, points: StoredPoints) -> None:
        if series == "train/loss":
            self.steps = [int(step) for step in points.step]

    def _points(self, series: str, points: StoredPoints) -> None:
        if series == "train/loss":
            self.steps += [int(step) for step in points.step]


@pytest.fixture(autouse=True)
def runs_stop_with_their_test() -> Iterator[None]:
    """The window leaves its runs alone, so the test ends them."""
    yield
    for info in client.runs():
        if not info.state.is_over:
            client.send(info.id, Stop(now=True))


@pytest.fixture(autouse=True)
def points_stay_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine delays the window for seconds: then it would read blocks."""
    for name in ("MOST_AT_ONCE", "MOST_WHOLE", "MOST_SHOWN", "LONGEST_ADDITION"):
        monkeypatch.setattr(store_follower, name, 10**9)


def test_click_train_watch_checkpoint_stop_and_come_back(open_app: OpenApp, qtbot: QtBot) -> None:
    app = open_app(telemetry=TelemetryReader())
    seen = Spectator(app)
    epochs = app.form.field("epochs").widget
    epochs.clear()
    QTest.keyClicks(epochs, "1000000")

    def click(button: QPushButton) -> None:
        qtbot.waitUntil(button.isEnabled)
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)

    click(app.form.start_button)
    qtbot.waitUntil(lambda: len(seen.steps) > 20)
    assert seen.state is RunState.RUNNING
    click(app.controls.checkpoint)
    qtbot.waitUntil(lambda: CheckpointSaved in seen.events)
    click(app.controls.empty_cache)
    qtbot.waitUntil(lambda: CacheEmptied in seen.events)
    click(app.controls.pause)
    qtbot.waitUntil(lambda: Paused in seen.events)
    qtbot.waitUntil(lambda: app.controls.pause.text() == "Resume")
    click(app.controls.pause)
    qtbot.waitUntil(lambda: seen.state is RunState.RUNNING)

    app.window.close()
    app.shut_down()
    before = len(seen.steps)
    again = open_app()
    seen_again = Spectator(again)
    again.open(again.run_list.watched)
    assert seen_again.state is RunState.RUNNING
    assert len(seen_again.steps) >= before
    assert seen_again.steps[0] == 1

    click(again.controls.stop)
    qtbot.waitUntil(lambda: seen_again.state is RunState.STOPPED)
    assert seen_again.steps == list(range(1, len(seen_again.steps) + 1))
    assert again.controls.resume.isVisible()
    steps = len(seen_again.steps)
    click(again.controls.resume)
    qtbot.waitUntil(lambda: len(seen_again.steps) > steps)
    click(again.controls.stop)
    qtbot.waitUntil(lambda: seen_again.state is RunState.STOPPED)
