"""The row of figures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gui.style.theme import DARK, ThemeController
from gui.widgets.figure_card import UNKNOWN, FigureRow


@pytest.fixture
def row(qtbot: QtBot, qapp: QApplication) -> Iterator[FigureRow]:
    controller = ThemeController(qapp)
    controller.set_choice("dark")
    made = FigureRow()
    qtbot.addWidget(made)
    made.resize(900, 80)
    made.show()
    yield made
    qapp.setStyleSheet("")
    qapp.setPalette(QPalette())


def test_a_figure_its_note_and_its_tone(row: FigureRow) -> None:
    card = row.card("loss")
    assert card.caption.text() == "TRAIN LOSS"
    assert card.value.text() == UNKNOWN
    row.set_figure("loss", "0.4127", "▼ 2.1 % / epoch", "good")
    assert card.value.text() == "0.4127"
    assert card.accessibleName() == "TRAIN LOSS, 0.4127, ▼ 2.1 % / epoch"
    assert card.note.palette().color(QPalette.ColorRole.WindowText) == QColor(DARK.ok)
    row.set_figure("loss", "0.5", "▲ 3 % / epoch", "warning")
    assert card.note.palette().color(QPalette.ColorRole.WindowText) == QColor(DARK.warn)
    row.set_figure("loss", "0.5")
    assert card.note.text() == ""
    assert card.note.palette().color(QPalette.ColorRole.WindowText) == QColor(DARK.muted)


def test_the_validation_card_takes_the_name_of_its_metric(row: FigureRow) -> None:
    row.card("metric").set_caption("VAL ACCURACY")
    row.set_figure("metric", "87.4 %")
    assert row.card("metric").accessibleName() == "VAL ACCURACY, 87.4 %"


def test_an_unknown_figure_is_an_error(row: FigureRow) -> None:
    with pytest.raises(KeyError):
        row.set_figure("no such card", "1")


def test_a_note_is_said_in_as_many_words_as_fit(row: FigureRow) -> None:
    card = row.card("metric")
    forms = ("★ best 99.7 % @ epoch 28, the first of two", "★ 99.7 % @ epoch 28", "★ 99.7 %")
    row.set_figure("metric", "98.6 %", "\n".join(forms))
    row.resize(2400, 80)
    assert card.note.text() == forms[0]
    shown = []
    for width in range(2400, 600, -20):
        row.resize(width, 80)
        assert card.note.text() in forms
        if card.note.text() not in shown:
            shown.append(card.note.text())
    assert shown == list(forms), "the longest one that fits"
    assert forms[0] in card.accessibleName()
    assert forms[0] in card.toolTip()
