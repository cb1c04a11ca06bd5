"""What the tests of the window share: recorded runs that need no worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from gui.app import AppController
from gui.bridge.background import Background
from gui.bridge.files import gpu_builds
from gui.bridge.machines.machines import Machines
from gui.bridge.planning.planning import Planning
from gui.bridge.telemetry_reader import TelemetryReader
from gui.style.theme import ThemeController
from tests.support.device_states import cpu
from tests.support.recorded_runs import RecordedRun

SPEC = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",), epochs=2)


@contextmanager
def window_of_module(home: Path, *devices: DeviceSnapshot) -> Iterator[AppController]:
    """A window for all tests of a module, whose fixture is called `opened`; each test begins with
    what makes it as it was. `home` is the data folder of them all."""
    app = QApplication.instance() or QApplication([])
    assert isinstance(app, QApplication)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_builds, "gpu_problem", lambda *about: "")
        patch.setenv("TRAINDECK_HOME", str(home))
        controller = AppController(ThemeController(app), StillTelemetry(*devices))
        controller.window.show()
        yield controller
        controller.window.close()
        controller.shut_down()
        controller.window.deleteLater()
    end_windows()


@pytest.fixture(autouse=True)
def traindeck_home(
    request: pytest.FixtureRequest, traindeck_home: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The data folder of the test, or that of the window of its module."""
    if "opened" not in request.fixturenames:
        return traindeck_home
    home: Path = request.getfixturevalue("home")
    monkeypatch.setenv("TRAINDECK_HOME", str(home))
    return home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of the window of a module."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def windows_end_with_their_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Widgets whose deletion is due are deleted now: no event loop runs that would do it."""
    yield
    if QCoreApplication.instance() is None:
        return
    if QApplication.keyboardModifiers() != Qt.KeyboardModifier.NoModifier:
        QTest.keyClick(QWidget(), Qt.Key.Key_Escape)  # Ctrl is no longer held, for the next test
    if "opened" not in request.fixturenames:
        end_windows()


def end_windows() -> None:
    """Delete what is to be deleted, and forget the theme.

    A change of theme dresses every widget there is, so the tests would grow slower and slower. The
    menus of pyqtgraph's plots have no parent that deletes them.
    """
    app = QCoreApplication.instance()
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
    monkeypatch.setattr(gpu_builds, "gpu_problem", lambda *about: "")


Record = Callable[..., RecordedRun]
Patch = pytest.MonkeyPatch


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


class StillTelemetry(TelemetryReader):
    """Tells once which devices there are, starts no helper, and notes what one would be told."""

    def __init__(self, *devices: DeviceSnapshot) -> None:
        super().__init__()
        self._devices = devices
        self.watching = False
        self.details: list[str] = []

    def start(self) -> None:
        """The first snapshot is the only one."""
        self.snapshot.emit(Snapshot(time=time.time(), devices=self._devices))

    def set_watching(self, watching: bool) -> None:
        self.watching = watching

    def set_detail(self, id: str) -> None:
        self.details.append(id)


OpenApp = Callable[..., AppController]


@pytest.fixture
def open_app(qapp: QApplication, qtbot: QtBot) -> Iterator[OpenApp]:
    """Opens the window, and waits until it shows what there is: on a machine with these devices, or
    with a CPU only.

    The window that was open before is ended, unless this one is `beside` it: each theme would dress
    both.
    """
    apps: list[AppController] = []

    def end() -> None:
        for app in apps:
            app.window.close()
            app.shut_down()
            app.window.deleteLater()
        apps.clear()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)

    def open(
        *devices: DeviceSnapshot, telemetry: TelemetryReader | None = None, beside: bool = False
    ) -> AppController:
        if not beside:
            end()
        app = AppController(
            ThemeController(qapp), telemetry or StillTelemetry(*(devices or [cpu()]))
        )
        apps.append(app)
        app.window.show()
        wait_for_runs(app, qtbot)
        return app

    yield open
    end()
