"""The first start: what to do, and a run that begins with one click."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from engine import client
from engine.client import CannotStart
from engine.spec.run_spec import RunSpec
from engine.spec.validation import Problem
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from gui.app import AppController
from gui.bridge.files import gpu_builds
from gui.run_view.welcome_page import first_spec
from tests.gui.conftest import Record, window_of_module
from tests.gui.other_machine import as_before
from tests.support import device_states
from tests.support.recorded_runs import RecordedRun


def test_the_first_spec_has_nothing_wrong_with_it() -> None:
    assert client.check(first_spec("cpu:0")) == []


@pytest.fixture(scope="module")
def opened(home: Path) -> Iterator[AppController]:
    """The window of all tests here, whose page is in sight."""
    with window_of_module(home, device_states.cpu()) as app:
        yield app


@pytest.fixture
def app(opened: AppController, qtbot: QtBot) -> Iterator[AppController]:
    with as_before(opened, qtbot):
        yield opened


def test_the_button_starts_a_run_and_the_page_makes_way(
    app: AppController, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    def start(spec: RunSpec, *_: object) -> str:
        run = RecordedRun(spec)
        run.begin()
        run.store.close()
        return run.id

    monkeypatch.setattr(client, "start", start)
    assert app.welcome_page.isVisible()
    assert not app.rooms.run.plots.isVisible()
    QTest.mouseClick(app.welcome_page.button, Qt.MouseButton.LeftButton)
    assert not app.welcome_page.button.isEnabled(), "a second click starts no second run"
    assert app.window.focusWidget() is app.run_list
    qtbot.waitUntil(app.rooms.run.plots.isVisible)
    assert not app.welcome_page.isVisible()
    assert client.get_run("1").spec == first_spec("cpu:0")


def test_why_it_did_not_start_is_said_on_the_page(
    app: AppController, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    def refuse(*_: object) -> str:
        raise CannotStart([Problem("", "The disk is full.")])

    monkeypatch.setattr(client, "start", refuse)
    page = app.welcome_page
    page.button.click()
    qtbot.waitUntil(lambda: "The disk is full." in page.note.text())
    assert page.button.isEnabled()
    assert page.device == "cpu:0"
    snapshot = device_states.eight_gpus()
    app.telemetry.snapshot.emit(snapshot)
    assert "The disk is full." in page.note.text(), "a snapshot does not clear it"
    [taken] = [each for each in snapshot.devices if each.id == page.device]
    assert taken.kind == "gpu"
    assert taken.id not in {device_states.BUSY, device_states.OTHERS}, "the first empty one"
    page.button.click()
    assert f"GPU {taken.label} ({taken.name})" in page.note.text()
    qtbot.waitUntil(lambda: "The disk is full." in page.note.text())


def test_a_card_that_pytorch_cannot_use_leaves_the_cpu_and_the_reason(
    app: AppController, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "It is for CPUs. Install another."
    monkeypatch.setattr(gpu_builds, "gpu_problem", lambda *about: why)
    amd = DeviceSnapshot(id="GPU-amd0", kind="gpu", label="0", index=0, name="AMD", processes=())
    app.telemetry.snapshot.emit(Snapshot(time=0.0, devices=(amd, device_states.cpu())))
    page = app.welcome_page
    page.show_failure("")
    assert page.device == "cpu:0"
    assert "on the CPU, because It is for CPUs. Nothing" in page.note.text()


def test_a_run_from_elsewhere_ends_it(app: AppController, record: Record, qtbot: QtBot) -> None:
    record().begin()
    app.engine_client.refresh_runs()
    qtbot.waitUntil(lambda: not app.welcome_page.isVisible())
    assert app.controls.headline.title.text().endswith("#1")
