"""The curves of the compared runs: what is read of each, and when it is asked for again."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from engine.interface.engine import Engine
from engine.interface.values import NoAnswer, NotConnected
from gui.bridge.background import Background
from gui.bridge.curves.curve_reader import CurveBatch, CurveNews, CurveReader
from tests.gui.conftest import Record
from tests.support.recorded_runs import RecordedRun


@pytest.fixture
def run() -> RecordedRun:
    run = RecordedRun()
    run.begin()
    run.add_points("train/loss", range(3))
    return run


@pytest.fixture
def background(qapp: object) -> Background:
    return Background()


def refuse(background: Background, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def engine_of(run_id: str) -> tuple[Engine, str]:
        raise error

    monkeypatch.setattr(background.machines, "engine_of", engine_of)


def test_a_run_is_read_once_and_then_what_is_new(background: Background, run: RecordedRun) -> None:
    reader = CurveReader(background.machines, run.id)
    (curve,) = reader.read(100).curves
    assert (curve.series, curve.replaces, len(curve.points.step)) == ("train/loss", True, 3)
    run.add_points("train/loss", [3])
    run.add_points("rank/0/step_time", [3])
    (curve,) = reader.read(100).curves
    assert (curve.replaces, list(curve.points.step)) == (False, [3])
    assert not reader.read(100).curves
    run.store.close()


def test_a_machine_is_asked_again(background: Background, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = CurveReader(background.machines, "gpus:1")
    refuse(background, NotConnected("gpus: There is no connection."), monkeypatch)
    assert reader.read(100) == CurveNews("gpus:1", is_late=True)
    refuse(background, NoAnswer("gpus is not connected."), monkeypatch)
    assert reader.read(100).trouble.endswith("cannot be read: gpus is not connected.")


def test_what_was_read_of_a_run_that_is_compared_no_more_is_not_told(
    background: Background, record: Record, qtbot: QtBot
) -> None:
    batch = CurveBatch(background)
    for _ in range(2):
        record().begin()
    batch.follow(["1", "2"])
    with qtbot.waitSignal(batch.news) as told:
        batch.read(["1", "2"])
        batch.follow(["2"])
    assert [each.run_id for each in told.args[0]] == ["2"]
    background.finish()
