"""The save dialog: the suffix, and the question before a file is replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from gui.widgets.save_dialog import ask_where_to_save
from tests.gui.save_dialog_user import SaveDialogUser


@pytest.fixture
def window(qtbot: QtBot) -> QWidget:
    window = QWidget()
    qtbot.addWidget(window)
    return window


def chosen(window: QWidget, folder: Path) -> str:
    return ask_where_to_save(window, "Save the plot", str(folder / "loss.png"), "*.png")


@pytest.mark.parametrize("name", ["foo", "foo.v2"])
def test_no_file_is_replaced_without_a_question(window: QWidget, tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.png").touch()
    with SaveDialogUser(str(tmp_path / name)) as saver:
        assert chosen(window, tmp_path) == ""
    assert len(saver.questions) == 1
    assert f"{name}.png" in saver.questions[0]
    assert saver.proposals[0] == "loss.png"


@pytest.mark.parametrize("name", ["foo", "foo.png", "foo.v2"])
def test_a_new_file_gets_the_ending(window: QWidget, tmp_path: Path, name: str) -> None:
    with SaveDialogUser(str(tmp_path / name)) as saver:
        assert chosen(window, tmp_path) == str(tmp_path / f"{name.removesuffix('.png')}.png")
    assert saver.questions == []
