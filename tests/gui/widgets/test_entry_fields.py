"""Typed entry fields made from a recipe's fields."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QCheckBox, QLineEdit
from pytestqt.qtbot import QtBot

from engine.spec.field_info import FieldInfo, Setting
from gui.widgets.entry_fields import Combo, Field
from tests.support.sentences import sentence


@pytest.mark.parametrize(
    ("field", "widget", "value"),
    [
        (FieldInfo("width", "int", 32), QLineEdit, 64),
        (FieldInfo("rate", "float", 0.1), QLineEdit, 3e-4),
        (FieldInfo("rate", "float", 0.1), QLineEdit, 0.30000000000000004),
        (FieldInfo("deep", "bool", False), QCheckBox, True),
        (FieldInfo("name", "str", "a"), QLineEdit, "b c"),
        (FieldInfo("act", "choice", "relu", ("relu", "gelu")), Combo, "gelu"),
        (FieldInfo("size", "choice", 8, (8, 16)), Combo, 16),
    ],
)
def test_a_value_survives_set_and_get(
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
def test_nonsense_is_refused_with_a_sentence(qtbot: QtBot, text: str) -> None:
    entry = Field(FieldInfo("width", "int", 32))
    qtbot.addWidget(entry)
    _cleared(entry).setText(text)
    with pytest.raises(ValueError, match=sentence("width-must-be-whole-number").pattern):
        entry.value()


def test_an_empty_field_says_what_no_number_means(qtbot: QtBot) -> None:
    entry = Field(FieldInfo("steps", "int", 0, zero="no limit"))
    qtbot.addWidget(entry)
    line = entry.widget
    assert (line.text(), line.placeholderText(), entry.value()) == ("", "no limit", 0)
    entry.set_value(7)
    assert entry.value() == 7
    QTest.keyClicks(_cleared(entry), "0")
    assert entry.value() == 0
    entry.set_value(0)
    assert line.text() == ""


def test_a_choice_is_shown_in_words_and_explained(qtbot: QtBot) -> None:
    info = FieldInfo(
        "on_nan", "choice", "continue", ("continue", "skip"), "The loss is NaN.",
        texts=("Keep going", "Skip step"), meanings=("the training goes on", ""),
    )  # fmt: skip
    entry = Field(info)
    qtbot.addWidget(entry)
    combo = entry.widget
    assert (combo.currentText(), entry.value()) == ("Keep going", "continue")
    entry.set_value("skip")
    assert (combo.currentText(), entry.value()) == ("Skip step", "skip")
    assert sentence("keep-going-training-goes") in combo.toolTip()
    assert info.help(in_form=False) == sentence("loss-is-nan-continue-training-goes")


def test_a_field_at_fault_is_outlined_and_says_why_to_screen_readers(qtbot: QtBot) -> None:
    entry = Field(FieldInfo("width", "int", 32))
    qtbot.addWidget(entry)
    entry.set_problem("Too wide.")
    assert entry.widget.property("fault") is True
    assert entry.widget.accessibleDescription() == "Too wide."
    entry.set_problem("")
    assert entry.widget.property("fault") is False
    assert entry.widget.accessibleDescription() == ""


def test_a_problem_takes_the_place_of_the_note(qtbot: QtBot) -> None:
    entry = Field(FieldInfo("width", "int", 32))
    qtbot.addWidget(entry)
    entry.show()
    entry.set_note("64 = 32 × 2")
    assert entry.note == "64 = 32 × 2"
    entry.set_problem("Too wide.")
    assert entry.note == "⚠ Too wide."
    entry.set_problem("")
    assert entry.note == "64 = 32 × 2"


def test_a_refused_field_shows_its_default_and_then_what_was_there(qtbot: QtBot) -> None:
    entry = Field(FieldInfo("size", "int", 32, doc="How big."))
    qtbot.addWidget(entry)
    entry.set_value(64)
    assert entry.is_changed
    with qtbot.assertNotEmitted(entry.changed):
        entry.set_refusal("Not <here>.")
    assert (entry.value(), entry.is_changed) == (32, False)
    assert not entry.widget.isEnabled()
    assert not entry.label.isEnabled()
    assert "Not &lt;here&gt;." in entry.widget.toolTip()
    entry.set_value(128)
    assert entry.value() == 32
    with qtbot.assertNotEmitted(entry.changed):
        entry.set_refusal("")
    assert entry.value() == 128
    assert entry.widget.isEnabled()
    assert "How big." in entry.widget.toolTip()
    _cleared(entry).setText("nonsense")
    entry.set_refusal("No.")
    assert entry.value() == 32


def test_some_choices_may_be_refused(qtbot: QtBot) -> None:
    entry = Field(FieldInfo("act", "choice", "relu", ("relu", "gelu")))
    qtbot.addWidget(entry)
    entry.set_choice_refusals({"gelu": "Too smooth."})
    model = entry.widget.model()
    assert model.item(0).isEnabled()
    assert not model.item(1).isEnabled()
    assert "Too smooth." in model.item(1).toolTip()
    entry.set_choice_refusals({})
    assert model.item(1).isEnabled()


def test_scrolling_past_a_choice_leaves_it_alone(qtbot: QtBot) -> None:
    entry = Field(FieldInfo("act", "choice", "relu", ("relu", "gelu")))
    qtbot.addWidget(entry)
    entry.show()
    entry.widget.setFocus()
    middle = QPointF(entry.widget.rect().center())
    event = QWheelEvent(
        middle,
        QPointF(entry.widget.mapToGlobal(middle)),
        QPoint(),
        QPoint(0, -120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(entry.widget, event)
    assert entry.value() == "relu"
    assert not event.isAccepted()


def _cleared(entry: Field) -> QLineEdit:
    line = entry.widget
    line.clear()
    return line


@pytest.mark.parametrize("text", ["a\x00b", "a\u2028b", "\x1b[31m"])
def test_text_is_one_line_that_can_be_shown(qtbot: QtBot, text: str) -> None:
    entry = Field(FieldInfo("note", "str", "a"))
    qtbot.addWidget(entry)
    entry.set_value(text)
    with pytest.raises(ValueError, match=sentence("without-control-characters").pattern):
        entry.value()


def test_the_recipes_own_default_is_never_wrong(qtbot: QtBot) -> None:
    entry = Field(FieldInfo("note", "str", " a\tb "))
    qtbot.addWidget(entry)
    assert entry.value() == " a\tb "
    assert not entry.is_changed


def test_a_sentence_about_a_long_entry_stays_short(qtbot: QtBot) -> None:
    entry = Field(FieldInfo("width", "int", 1))
    qtbot.addWidget(entry)
    entry.set_value("x" * 5000)
    with pytest.raises(ValueError, match="whole number") as caught:
        entry.value()
    assert len(str(caught.value)) < 100
