"""Exporting and importing runs in the window: formats, progress, columns, cancelling."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from engine.runs.run_index import RunIndex
from engine.runs.run_info import get_run
from gui.bridge.background import Background
from gui.bridge.exchange import Format
from gui.exchange.controller import ExchangeController
from gui.exchange.export_dialog import ExportDialog
from gui.exchange.import_dialog import ImportDialog
from tests.support.recorded_runs import record_epochs


@pytest.fixture
def controller(qtbot: QtBot, tmp_path: Path) -> Iterator[ExchangeController]:
    window, background = QWidget(), Background()
    settings = QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)
    qtbot.addWidget(window)
    yield ExchangeController(background, settings, window)
    background.finish()


def choose(dialog: ExportDialog, format: Format) -> None:
    dialog.format.setCurrentIndex(dialog.format.findData(format))


def test_a_format_that_is_gone_is_forgotten(controller: ExchangeController, tmp_path: Path) -> None:
    settings = QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)
    settings.setValue("exchange/format", "wandb")
    record_epochs("finished", (0.5,))
    dialog = controller.export(RunIndex().runs())
    assert dialog.chosen is Format.HTML


def test_runs_are_exported_to_the_chosen_place(
    controller: ExchangeController, tmp_path: Path, qtbot: QtBot
) -> None:
    for name in ("../x", "<b>"):
        record_epochs("finished", (0.5, 0.25), name=name)
    dialog = controller.export(RunIndex().runs())
    dialog.folder.setText(str(tmp_path))
    for format in (Format.CSV, Format.TENSORBOARD, Format.HTML):
        choose(dialog, format)
        assert format.is_file is dialog.name.text().endswith(".html")
        target = tmp_path / dialog.name.text()
        dialog.begin.click()
        assert not dialog.fields.isEnabled()
        qtbot.waitUntil(lambda: not dialog.is_working)
        assert target.is_file() if format.is_file else target.is_dir()
        assert str(target) in dialog.outcome.text()
        assert "4 points of 2 runs" in dialog.outcome.text()
        assert dialog.name.text() != target.name  # that is taken now
    other = controller.export(RunIndex().runs())
    assert (other.folder.text(), other.chosen) == (str(tmp_path), Format.HTML)


def test_escape_and_the_button_close_it(controller: ExchangeController, qtbot: QtBot) -> None:
    record_epochs("finished", (0.5,))
    for close in (ExportDialog.reject, ExportDialog.close, lambda shown: shown.cancel.click()):
        dialog = controller.export(RunIndex().runs())
        dialog.show()
        close(dialog)
        qtbot.waitUntil(lambda closed=dialog: not isValid(closed))


def test_what_cannot_be_exported_is_said_in_the_dialog(
    controller: ExchangeController, tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = record_epochs("finished", (0.5,))
    monkeypatch.setattr("engine.exports.parquet_files.PACKAGE", "no_such_package")
    dialog = controller.export([get_run(folder.name)])
    choose(dialog, Format.PARQUET)
    assert "pip install no_such_package" in dialog.outcome.text()
    assert not dialog.begin.isEnabled()
    choose(dialog, Format.CSV)
    assert dialog.begin.isEnabled()
    dialog.folder.setText(str(tmp_path / "missing"))
    dialog.begin.click()
    qtbot.waitUntil(lambda: not dialog.is_working)
    assert "There is no folder" in dialog.outcome.text()


def test_a_cancelled_export_leaves_nothing(
    controller: ExchangeController, tmp_path: Path, qtbot: QtBot
) -> None:
    folder = record_epochs("finished", (0.5,))
    dialog = controller.export([get_run(folder.name)])
    place = tmp_path / "here"
    place.mkdir()
    dialog.folder.setText(str(place))
    choose(dialog, Format.CSV)
    # Cancelled after its begin, before its first report of progress.
    dialog._exchange._stop.clear = lambda: dialog._exchange._stop.set()  # type: ignore[method-assign]
    dialog.begin.click()
    qtbot.waitUntil(lambda: not dialog.is_working)
    assert "Cancelled" in dialog.outcome.text()
    assert list(place.iterdir()) == []


def test_without_a_run_nothing_is_exported(controller: ExchangeController, qtbot: QtBot) -> None:
    with qtbot.waitSignal(controller.message):
        assert controller.export([]) is None


def test_the_column_of_the_steps_can_be_chosen(
    controller: ExchangeController, tmp_path: Path, qtbot: QtBot
) -> None:
    table = tmp_path / "a.csv"
    table.write_text("when,reward,n\n10,0.5,7\n20,0.75,8\n")
    dialog = controller.import_runs()
    assert not dialog.begin.isEnabled()
    with qtbot.waitSignal(dialog._exchange.header_read):
        dialog.set_paths([str(table)])
    step = dialog.columns["step"]
    assert step.isVisibleTo(dialog)
    assert [step.itemText(place) for place in range(step.count())][1:] == ["when", "reward", "n"]
    dialog.begin.click()
    qtbot.waitUntil(lambda: not dialog.is_working)
    assert "which column is the step" in dialog.outcome.text()
    step.setCurrentIndex(step.findData("when"))
    with qtbot.waitSignal(controller.imported):
        dialog.begin.click()
    qtbot.waitUntil(lambda: not dialog.is_working)
    (run,) = RunIndex().runs()
    assert run.spec.is_imported
    assert (run.status.step, run.status.metrics) == (20, {"reward": 0.75, "n": 8.0})
    with qtbot.waitSignal(controller.open_wanted) as opened:
        dialog.show_button.click()
    assert opened.args == [run.id]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"step,loss\n1,2,3\n", b"step\n1\n"])
def test_broken_files_are_named(
    content: bytes, controller: ExchangeController, tmp_path: Path, qtbot: QtBot
) -> None:
    table = tmp_path / "broken.csv"
    table.write_bytes(content)
    dialog = controller.import_runs()
    dialog.set_paths([str(table)])
    dialog.begin.click()
    qtbot.waitUntil(lambda: not dialog.is_working)
    assert str(table) in dialog.outcome.text()
    assert dialog.outcome.objectName() == "problem"
    assert RunIndex().runs() == []


def test_a_file_of_a_known_program_asks_for_no_columns(
    controller: ExchangeController, tmp_path: Path, qtbot: QtBot
) -> None:
    table = tmp_path / "run-a-tag-loss.csv"
    table.write_text("Wall time,Step,Value\n1.0,1,0.5\n")
    dialog: ImportDialog = controller.import_runs()
    with qtbot.waitSignal(dialog._exchange.header_read):
        dialog.set_paths([str(table)])
    assert not dialog.columns["step"].isVisibleTo(dialog)
