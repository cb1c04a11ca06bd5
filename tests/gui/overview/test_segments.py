"""Texts of several colours are broken into lines, and not cut."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor, QFont, QFontMetrics, QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gui.overview.segments import MOST_LINES, ROW_HEIGHT, Line, Piece, SegmentTable, flow, piece
from gui.style.theme import DARK, LIGHT, Theme, ThemeController


def test_pieces_follow_each_other_until_a_line_is_full(qtbot: QtBot) -> None:
    font = QFont()
    first, second = Piece("FSDP · PyTorch", bold=True), Piece("was DDP · PyTorch", small=True)
    room = QFontMetrics(font).horizontalAdvance("FSDP · PyTorch was DDP · PyTorch") * 2
    assert len(flow((first, second), room, font)) == 1
    narrow = flow((first, second), room // 3, font)
    assert [[text for _, text, _ in line] for line in narrow] == [[first.text], [second.text]]


def test_a_long_text_is_broken_at_spaces_or_anywhere(qtbot: QtBot) -> None:
    font = QFont()
    metrics = QFontMetrics(font)
    room = metrics.horizontalAdvance("x" * 20)
    words = "python main.py train --recipe digits --seed 17"
    lines = flow(piece(words), room, font)
    assert 1 < len(lines) <= MOST_LINES
    assert " ".join(text for line in lines for _, text, _ in line) == words
    lines = flow(piece("y" * 50), room, font)
    assert "".join(text for line in lines for _, text, _ in line) == "y" * 50
    for line in lines:
        for left, text, _ in line:
            assert left + metrics.horizontalAdvance(text) <= room
    lines = flow(piece("word " * 200), room, font)
    assert len(lines) == MOST_LINES
    assert lines[-1][-1][1].endswith("…"), "what is left out is said"


def test_the_table_is_as_high_as_its_rows_and_copies_them(qtbot: QtBot) -> None:
    table = SegmentTable("Facts", ["", ""], 90)
    qtbot.addWidget(table)
    table.resize(300, 10)
    lines = [Line((piece("Python"), piece("3.13"))), Line((piece("Path"), piece("a long " * 40)))]
    table.show_lines(lines)
    table.show()
    assert table.rowHeight(0) == ROW_HEIGHT
    assert table.rowHeight(1) > ROW_HEIGHT
    assert table.height() >= table.rowHeight(0) + table.rowHeight(1)
    before = table.rowHeight(1)
    table.resize(900, table.height())
    assert table.rowHeight(1) < before
    table.selectRow(0)
    table.copy.trigger()
    assert QGuiApplication.clipboard().text() == "Python\t3.13"


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_the_texts_of_a_selected_row_can_be_read(
    theme: Theme, qtbot: QtBot, qapp: QApplication
) -> None:
    before = ThemeController(qapp)
    choice, before_name = theme.name, before.current.name
    before.set_choice(choice)
    table = SegmentTable("Facts", ["", ""], 90)
    qtbot.addWidget(table)
    table.resize(300, 60)
    table.show_lines([Line((piece("Python"), piece("3.13")), "", is_marked=True)] * 2)
    table.show()
    table.selectRow(0)
    QApplication.processEvents()
    image = table.viewport().grab().toImage()
    ratio = image.devicePixelRatio()
    grounds = [image.pixelColor(int(280 * ratio), int(y * ratio)) for y in (3, ROW_HEIGHT + 3)]
    selected, other = grounds
    assert selected != other
    for tone in (theme.text, theme.muted, theme.warn, theme.bad, theme.ok):
        assert contrast(QColor(tone), selected) > 4.4
    before.set_choice(before_name)


def contrast(one: QColor, other: QColor) -> float:
    """The contrast of two colours, as WCAG 2 defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: QColor) -> float:
    parts = (colour.redF(), colour.greenF(), colour.blueF())
    linear = [part / 12.92 if part <= 0.04 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
