"""Copying a checkpoint in the window: which one, where to, and what is said if it fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from engine.runs.checkpoints import checkpoint_files
from engine.runs.run_info import get_run
from gui.bridge.background import Background
from gui.exchange.controller import ExchangeController
from gui.exchange.copy_checkpoint_dialog import CopyCheckpointDialog
from tests.support.recorded_runs import record_epochs, save_checkpoint
from tests.support.sentences import sentence


@pytest.fixture
def controller(qtbot: QtBot, tmp_path: Path) -> Iterator[ExchangeController]:
    window, background = QWidget(), Background()
    settings = QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)
    qtbot.addWidget(window)
    yield ExchangeController(background, settings, window)
    background.finish()


@pytest.fixture
def run() -> Path:
    folder = record_epochs("finished", (0.5,))
    for step in (10, 20):
        save_checkpoint(folder, step)
    return folder


def opened(controller: ExchangeController, run: Path, qtbot: QtBot) -> CopyCheckpointDialog:
    dialog = controller.copy_checkpoint(get_run(run.name))
    qtbot.waitUntil(lambda: "Reading" not in dialog.outcome.text())
    return dialog


def test_the_chosen_checkpoint_is_copied(
    controller: ExchangeController, run: Path, tmp_path: Path, qtbot: QtBot
) -> None:
    dialog = opened(controller, run, qtbot)
    assert dialog.target.name.text() == "run-1-step-00000020"
    dialog.table.setCurrentItem(dialog.table.topLevelItem(1))
    assert dialog.target.name.text() == "run-1-step-00000010"
    dialog.target.folder.setText(str(tmp_path))
    dialog.begin.click()
    assert not dialog.fields.isEnabled()
    qtbot.waitUntil(lambda: not dialog.is_working)
    target = tmp_path / "run-1-step-00000010"
    assert str(target) in dialog.outcome.text()
    assert checkpoint_files.verify(target).position.step == 10
    assert dialog.target.name.text() == "run-1-step-00000010-2", "that name is taken now"
    assert opened(controller, run, qtbot).target.folder.text() == str(tmp_path)


@pytest.mark.parametrize("name", ["../evil", "a/b", "..", ""])
def test_a_name_is_that_of_a_file_in_the_folder(
    controller: ExchangeController, run: Path, tmp_path: Path, qtbot: QtBot, name: str
) -> None:
    (tmp_path / "here").mkdir()
    dialog = opened(controller, run, qtbot)
    dialog.target.folder.setText(str(tmp_path / "here"))
    dialog.target.name.setText(name)
    dialog.begin.click()
    assert f"“{name}” is no name" in dialog.outcome.text()
    assert not dialog.is_working
    assert not (tmp_path / "evil").exists()


def test_what_cannot_be_copied_is_said_and_leaves_nothing(
    controller: ExchangeController, run: Path, tmp_path: Path, qtbot: QtBot
) -> None:
    place = tmp_path / "here"
    place.mkdir()
    dialog = opened(controller, run, qtbot)
    newest = run / "checkpoints" / "step-00000020"
    (newest / "rank0" / "model.safetensors").write_bytes(bytes(1000))
    dialog.target.folder.setText(str(place))
    dialog.begin.click()
    qtbot.waitUntil(lambda: not dialog.is_working)
    assert "is not what was saved" in dialog.outcome.text()
    checkpoint_files.remove(newest)
    dialog.begin.click()
    qtbot.waitUntil(lambda: not dialog.is_working)
    assert sentence("no-checkpoint-step-any-more") in dialog.outcome.text()
    assert list(place.iterdir()) == []


def test_a_cancelled_copy_leaves_nothing(
    controller: ExchangeController, run: Path, tmp_path: Path, qtbot: QtBot
) -> None:
    dialog = opened(controller, run, qtbot)
    place = tmp_path / "here"
    place.mkdir()
    dialog.target.folder.setText(str(place))
    # Cancelled after its begin, before its first report of progress.
    dialog._exchange._stop.clear = lambda: dialog._exchange._stop.set()  # type: ignore[method-assign]
    dialog.begin.click()
    qtbot.waitUntil(lambda: not dialog.is_working)
    assert "Cancelled" in dialog.outcome.text()
    assert list(place.iterdir()) == []


def test_a_run_without_checkpoints_says_so(controller: ExchangeController, qtbot: QtBot) -> None:
    dialog = opened(controller, record_epochs("finished", (0.5,)), qtbot)
    assert dialog.outcome.text() == "Run 1 has no checkpoint."
    assert not dialog.begin.isEnabled()
