"""What the tests of the window share: recorded runs that need no worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtGui import QPalette
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QWidget
from pytestqt.qtbot import QtBot

from engine.spec.run_spec import RunSpec
from engine.spec.strategy import Strategy, WorkerPlan, one_process_per_device
from gui.app import AppController
from gui.bridge.background import Background
from gui.bridge.files import gpu_builds
from gui.bridge.machines.machines import Machines
from gui.bridge.planning.planning import Planning
from gui.style.theme import ThemeController
from tests.support.recorded_runs import RecordedRun

SPEC = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",), epochs=2)


@pytest.fixture(autouse=True)
def windows_end_with_their_test() -> Iterator[None]:
    """Widgets whose deletion is due are deleted now: no event loop runs that would do it.

    A change of theme dresses every widget there is, so the tests would grow slower and slower. The
    menus of pyqtgraph's plots have no parent that deletes them.
    """
    yield
    app = QCoreApplication.instance()
    if app is None:
        return
    if QApplication.keyboardModifiers() != Qt.KeyboardModifier.NoModifier:
        QTest.keyClick(QWidget(), Qt.Key.Key_Escape)  # Ctrl is no longer held, for the next test
    for widget in QApplication.topLevelWidgets():
        if isinstance(widget, QMenu):
            widget.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    if isinstance(app, QApplication) and app.styleSheet():
        app.setStyleSheet("")  # the theme of this test is not the next one's
        app.setPalette(QPalette())


@pytest.fixture(autouse=True)
def threads_end_with_their_test(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """What a thread has found belongs to the test that has started it. A thread must not be the
    last one to hold a QObject either: this would be deleted in it, which Qt does not allow."""
    if "qtbot" in request.fixturenames:
        request.getfixturevalue("qtbot")  # it closes the widgets after this has ended
    made: list[Background | Machines | Planning] = []
    for kind in (Background, Machines, Planning):

        def note(
            self: Any, *args: Any, init: Callable[..., None] = kind.__init__, **named: Any
        ) -> None:
            init(self, *args, **named)
            made.append(self)

        monkeypatch.setattr(kind, "__init__", note)
    yield
    for each in reversed(made):
        if isinstance(each, Background):
            each.finish()
        else:
            each.shut_down()


@pytest.fixture(autouse=True)
def builds_for_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frameworks of these tests are built for the CPU, and the machines have made-up GPUs."""
    monkeypatch.setattr(gpu_builds, "gpu_problem", lambda framework, interpreter="": "")


Record = Callable[..., RecordedRun]


@pytest.fixture
def record(traindeck_home: Path) -> Iterable[Record]:
    """Makes recorded runs: `record()` or `record(spec)`."""
    made: list[RecordedRun] = []

    def make(spec: RunSpec = SPEC) -> RecordedRun:
        made.append(RecordedRun(spec))
        return made[-1]

    yield make
    for run in made:
        run.store.close()


class FakeStrategy(Strategy):
    """A strategy that is what the test says; it runs nowhere."""

    def __init__(
        self,
        name: str,
        *,
        recipes: frozenset[str] = frozenset({"torch"}),
        least_devices: int = 1,
        refusals: Mapping[str, str] | None = None,
        can_free_devices: bool = False,
    ) -> None:
        self.name = name  # type: ignore[misc]  # a class variable of real strategies
        self.title = name.title()  # type: ignore[misc]
        self.summary = f"The summary of {name}."  # type: ignore[misc]
        self.needs = f"{least_devices} or more devices"  # type: ignore[misc]
        self.recipe_frameworks = recipes  # type: ignore[misc]
        self.refusals = refusals or {}  # type: ignore[misc]
        self.can_free_devices = can_free_devices  # type: ignore[misc]
        self._least = least_devices

    def problems(self, devices: Sequence[str]) -> list[str]:
        few = len(devices) < self._least
        return [f"{self.name} needs {self._least} devices: choose more."] if few else []

    def pool(self, devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
        return one_process_per_device(devices)


UseStrategies = Callable[..., None]


@pytest.fixture
def use_strategies(monkeypatch: pytest.MonkeyPatch) -> UseStrategies:
    """Makes the strategies of the test all there are."""

    def use(*strategies: Strategy) -> None:
        monkeypatch.setattr("engine.spec.catalog.strategies", lambda: strategies)

    return use


def wait_for_runs(app: AppController, qtbot: QtBot) -> None:
    """Wait until a window that has just been made lists the runs."""
    with qtbot.waitSignal(app.engine_client.runs_listed):
        pass


@pytest.fixture
def open_app(
    processes: None, qapp: QApplication, qtbot: QtBot
) -> Iterator[Callable[[], AppController]]:
    """Opens the window, and waits until it shows what there is."""
    apps: list[AppController] = []

    def open() -> AppController:
        app = AppController(ThemeController(qapp))
        apps.append(app)
        app.window.show()
        wait_for_runs(app, qtbot)
        return app

    yield open
    for app in apps:
        app.window.close()
        app.shut_down()
        app.window.deleteLater()
