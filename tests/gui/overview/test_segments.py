"""Texts of several colours are broken into lines, and not cut."""

from __future__ import annotations

from PySide6.QtGui import QFont, QFontMetrics, QGuiApplication
from pytestqt.qtbot import QtBot

from gui.overview.segments import MOST_LINES, ROW_HEIGHT, Line, Piece, SegmentTable, flow, piece


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
