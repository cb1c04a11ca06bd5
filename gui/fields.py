"""Small typed entry fields, made from what a recipe or the spec says about a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from PySide6.QtCore import Qt, Signal, SignalInstance
from PySide6.QtWidgets import QCheckBox, QComboBox, QLabel, QLineEdit, QVBoxLayout, QWidget

from engine.field_info import FieldInfo, Setting


class Editor(NamedTuple):
    """A widget for one value, and how to read and write it."""

    widget: QWidget
    get: Callable[[], Setting]
    """Raises ValueError with a sentence when what was typed stands for no value."""

    set: Callable[[Setting], None]
    changed: SignalInstance


def _line(field: FieldInfo) -> Editor:
    line = QLineEdit()
    line.setClearButtonEnabled(False)
    return Editor(
        line,
        lambda: field.parse(line.text()),
        lambda value: line.setText(_as_text(value)),
        line.textChanged,
    )


def _check(field: FieldInfo) -> Editor:
    box = QCheckBox()
    return Editor(box, box.isChecked, lambda value: box.setChecked(bool(value)), box.toggled)


def _combo(field: FieldInfo) -> Editor:
    combo = QComboBox()
    let_shrink(combo)
    combo.addItems([str(choice) for choice in field.choices])
    return Editor(
        combo,
        lambda: field.parse(combo.currentText()),
        lambda value: combo.setCurrentText(str(value)),
        combo.currentTextChanged,
    )


_EDITORS: dict[str, Callable[[FieldInfo], Editor]] = {
    "bool": _check,
    "int": _line,
    "float": _line,
    "str": _line,
    "choice": _combo,
}


class Field(QWidget):
    """One entry field with room for a note and for a problem below it."""

    changed = Signal()

    def __init__(self, field: FieldInfo, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._editor = _EDITORS[field.type](field)
        self._editor.widget.setAccessibleName(field.name)
        self._editor.widget.setToolTip(field.doc)
        self._editor.changed.connect(lambda *_: self.changed.emit())
        self._below = Below()
        self.setFocusProxy(self._editor.widget)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(self._editor.widget)
        layout.addWidget(self._below)
        self.set_value(field.default)

    @property
    def widget(self) -> QWidget:
        """The widget that takes the keys."""
        return self._editor.widget

    @property
    def problem(self) -> str:
        """The problem on display, or empty."""
        return self._below.problem

    @property
    def below(self) -> str:
        """The line below the field: its problem or its note."""
        return self._below.text()

    def value(self) -> Setting:
        """What was entered. Raises ValueError with a sentence when it stands for no value."""
        return self._editor.get()

    def set_value(self, value: Setting) -> None:
        """Show `value`."""
        self._editor.set(value)

    def set_note(self, text: str) -> None:
        """Show a quiet line below the field while there is no problem."""
        self._below.set_note(text)

    def set_problem(self, text: str) -> None:
        """Show what is wrong with the value, in words; empty when nothing is."""
        self._below.set_problem(text)


class Below(QLabel):
    """The line below a field: a problem if there is one, else a note, else nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.problem = ""
        self._note = ""
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setVisible(False)

    def set_note(self, text: str) -> None:
        """Show `text` while there is no problem."""
        self._note = text
        self._show()

    def set_problem(self, text: str) -> None:
        """Show `text` as a problem; empty when there is none."""
        self.problem = text
        self._show()

    def _show(self) -> None:
        text = f"⚠ {self.problem}" if self.problem else self._note
        self.setObjectName("problem" if self.problem else "note")
        self.setText(text)
        self.setVisible(bool(text))
        self.style().polish(self)  # the style sheet goes by the name


def let_shrink(combo: QComboBox) -> None:
    """Let a combo box be narrower than its longest entry: the side of the window is narrow."""
    combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    combo.setMinimumContentsLength(8)


def _as_text(value: Setting) -> str:
    """As a person would type it: 0.001, 3e-05, 128."""
    return f"{value:g}" if type(value) is float and float(f"{value:g}") == value else str(value)
