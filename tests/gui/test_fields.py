"""Typed entry fields made from a recipe's fields."""

from __future__ import annotations

import pytest
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QCheckBox, QComboBox, QLineEdit
from pytestqt.qtbot import QtBot

from engine.field_info import FieldInfo, Setting
from gui.fields import Field


@pytest.mark.parametrize(
    ("field", "widget", "value"),
    [
        (FieldInfo("width", "int", 32), QLineEdit, 64),
        (FieldInfo("rate", "float", 0.1), QLineEdit, 3e-4),
        (FieldInfo("rate", "float", 0.1), QLineEdit, 0.30000000000000004),
        (FieldInfo("deep", "bool", False), QCheckBox, True),
        (FieldInfo("name", "str", "a"), QLineEdit, "b c"),
        (FieldInfo("act", "choice", "relu", ("relu", "gelu")), QComboBox, "gelu"),
        (FieldInfo("size", "choice", 8, (8, 16)), QComboBox, 16),
    ],
)
def test_a_value_comes_back_as_it_went_in(
    qtbot: QtBot, field: FieldInfo, widget: type, value: Setting
) -> None:
    entry = Field(field)
    qtbot.addWidget(entry)
    assert type(entry.widget) is widget
    assert entry.value() == field.default
    with qtbot.waitSignal(entry.changed):
        entry.set_value(value)
    assert entry.value() == value
    assert type(entry.value()) is type(value)


@pytest.mark.parametrize("text", ["3e-4", " 0.0003 ", "3E-4"])
def test_a_number_may_be_typed_in_scientific_notation(qtbot: QtBot, text: str) -> None:
    entry = Field(FieldInfo("rate", "float", 0.1))
    qtbot.addWidget(entry)
    QTest.keyClicks(_cleared(entry), text)
    assert entry.value() == 3e-4


@pytest.mark.parametrize("text", ["", "abc", "1,5", "--", "1e", "😀"])
def test_nonsense_is_said_in_a_sentence(qtbot: QtBot, text: str) -> None:
    entry = Field(FieldInfo("width", "int", 32))
    qtbot.addWidget(entry)
    _cleared(entry).setText(text)
    with pytest.raises(ValueError, match="width must be a whole number"):
        entry.value()


def test_a_problem_takes_the_place_of_the_note(qtbot: QtBot) -> None:
    entry = Field(FieldInfo("width", "int", 32))
    qtbot.addWidget(entry)
    entry.show()
    entry.set_note("64 = 32 × 2")
    assert entry.below == "64 = 32 × 2"
    entry.set_problem("Too wide.")
    assert entry.below == "⚠ Too wide."
    entry.set_problem("")
    assert entry.below == "64 = 32 × 2"


def _cleared(entry: Field) -> QLineEdit:
    line = entry.widget
    assert isinstance(line, QLineEdit)
    line.clear()
    return line
