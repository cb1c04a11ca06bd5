"""A failure file in the window: it is saved from one data folder and shown in another."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine.cases.collection import write_case
from engine.messages.events import Failure, RunEnded
from engine.runs.run_info import get_run
from gui.run_view.failure_banner import HOLDS_SAMPLES
from tests.gui.conftest import OpenApp
from tests.support.recorded_runs import RecordedRun


def failed_run() -> RecordedRun:
    run = RecordedRun()
    run.begin()
    run.add_points("train/loss", range(1, 9))
    failure = Failure(0, "cpu:0", 1, "", "Rank 0 failed: ValueError", "", "its log")
    run.add(RunEnded("failed", failure.message, failure))
    run.store.close()
    write_case(run.folder)
    return run


def test_it_is_saved_opened_and_shown_with_its_failure(
    open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    run, saved = failed_run(), tmp_path / "for-help.tdcase"
    app = open_app()
    told: list[str] = []
    app.exchange.message.connect(told.append)
    app.exchange.save_case_as(run.id, str(saved))
    qtbot.waitUntil(lambda: bool(told), timeout=60_000)
    assert told[0].endswith(HOLDS_SAMPLES)
    assert saved.read_bytes() == (run.folder / "failure.tdcase").read_bytes()
    monkeypatch.setenv("TRAINDECK_HOME", str(tmp_path / "elsewhere"))
    app = open_app()
    app.exchange.open_file(str(saved))
    qtbot.waitUntil(app.banner.isVisible, timeout=60_000)
    assert get_run("1").spec.imported_from == str(saved)
    assert "ValueError" in app.banner.sentence.text()
    assert app.banner.log.toPlainText() == "its log"
    assert app.banner.save.isVisible()
    assert not app.controls.resume.isEnabled()


def test_what_cannot_be_saved_or_opened_is_said(
    open_app: OpenApp, tmp_path: Path, qtbot: QtBot
) -> None:
    app = open_app()
    told: list[str] = []
    app.exchange.message.connect(told.append)
    app.exchange.save_case("")
    run = RecordedRun()
    run.begin()
    app.exchange.save_case_as(run.id, str(tmp_path / "none.tdcase"))
    qtbot.waitUntil(lambda: len(told) == 2, timeout=60_000)
    assert not (tmp_path / "none.tdcase").exists()
    (tmp_path / "bad.tdcase").write_bytes(b"no")
    app.exchange.open_file(str(tmp_path / "bad.tdcase"))
    qtbot.waitUntil(lambda: len(told) == 3, timeout=60_000)
    run.store.close()
