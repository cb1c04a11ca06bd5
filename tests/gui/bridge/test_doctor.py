"""The doctor of the window: its checks run on another thread, and end when they are stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from engine.doctor.examination import Examination
from engine.doctor.finding import Finding
from engine.system.cancelled import Cancelled
from gui.bridge.background import Background
from gui.bridge.doctor import Doctor
from tests.gui.conftest import Patch

GOOD, BAD = Finding("driver", "ok", "It works."), Finding("PyTorch", "error", "It does not.", "Do.")


@pytest.fixture
def doctor(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> Iterator[Doctor]:
    monkeypatch.setattr(Examination, "quick", lambda self: iter([GOOD, BAD]))
    monkeypatch.setattr(Examination, "machine", lambda self: iter([GOOD]))
    background = Background()
    made = Doctor(background)
    yield made
    made.shut_down()
    background.finish()


def test_a_look_tells_only_what_is_odd(doctor: Doctor, qtbot: QtBot) -> None:
    with qtbot.waitSignal(doctor.odd) as said:
        doctor.look()
    assert said.args == [[BAD]]


def test_the_checks_come_one_by_one(doctor: Doctor, qtbot: QtBot) -> None:
    found: list[Finding] = []
    doctor.checked.connect(found.append)
    with qtbot.waitSignal(doctor.ended) as ended:
        doctor.examine(on_gpus=False)
        assert doctor.is_running
    assert ended.args == [True]
    assert found == [GOOD, BAD, GOOD]
    assert not doctor.is_running


def test_a_stop_ends_the_checks(doctor: Doctor, qtbot: QtBot, monkeypatch: Patch) -> None:
    begun = threading.Event()

    def thorough(examination: Examination) -> Iterator[Finding]:
        yield GOOD
        begun.set()
        deadline = time.monotonic() + 60.0
        while not examination._is_cancelled():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        raise Cancelled

    monkeypatch.setattr(Examination, "thorough", thorough)
    with qtbot.waitSignal(doctor.ended) as ended:
        doctor.examine(on_gpus=True)
        doctor.examine(on_gpus=True)  # there is one at a time
        assert begun.wait(60)
        doctor.stop()
    assert ended.args == [False]
