"""Widgets are listed in the order of their layouts, and no layout is asked for its items."""

from __future__ import annotations

import re
from pathlib import Path

from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

import gui
from gui.widgets.layouts.layout_order import widgets_in


def test_the_order_is_that_of_the_layout_and_of_those_in_it(qtbot: QtBot) -> None:
    owner = QWidget()
    qtbot.addWidget(owner)
    column, line = QVBoxLayout(owner), QHBoxLayout()
    first, second, third, last, free = (QLabel(text) for text in "abcde")
    free.setParent(owner)
    column.addWidget(first)
    column.addLayout(line)
    column.addWidget(last)
    line.addWidget(third)
    line.insertWidget(0, second)
    line.addStretch(1)
    assert widgets_in(column, owner) == [first, second, third, last]
    assert widgets_in(line, owner) == [second, third]


def test_no_layout_is_asked_for_its_items() -> None:
    """What it returned would be taken for another object once Qt has deleted the item."""
    found = [
        f"{file.name}: {line.strip()}"
        for file in Path(gui.__path__[0]).rglob("*.py")
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.search(r"\.itemAt(Position)?\b", line)
    ]
    assert found == []
