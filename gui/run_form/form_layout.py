"""Layout helpers of the run form, and reading the values of its fields."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget

from engine.spec.field_info import Setting
from engine.spec.validation import Problem
from gui.widgets.boxes import row_of
from gui.widgets.entry_fields import Field, FieldNote, show_fault

COLUMN_GAP = 10
"""Logical pixels between a label and its field."""


_LEAST_SHARE = 10
"""A field beside others is as wide as this many characters of a longer title, or wider."""


class ShowsProblem(Protocol):
    """A widget that shows the problem of a field."""

    def set_problem(self, text: str) -> None:
        """Show a problem; empty: there is none."""


class OutlinedNote:
    """Shows a problem in a note, and outlines the widgets at fault."""

    def __init__(self, note: FieldNote, *widgets: QWidget) -> None:
        self._note, self._widgets = note, widgets

    def set_problem(self, text: str) -> None:
        self._note.set_problem(text)
        for widget in self._widgets:
            show_fault(widget, text)

    def set_focus(self) -> None:
        """Give the first of the widgets the keyboard focus."""
        self._widgets[0].setFocus()


def entered_values(
    fields: Mapping[str, Field], prefix: str, found: list[Problem]
) -> dict[str, Setting]:
    """Return the values in `fields`; for an invalid value add a problem to `found` instead."""
    entered = {}
    for name, field in fields.items():
        try:
            entered[name] = field.value()
        except ValueError as error:
            found.append(Problem(prefix + name, str(error)))
    return entered


def align(labels: Sequence[QLabel]) -> None:
    """Make the labels equally wide, so that the fields beside them are aligned."""
    width = max(label.sizeHint().width() for label in labels)
    for label in labels:
        label.setFixedWidth(width)


def beside(field: QWidget, button: QWidget) -> QWidget:
    """Return one widget with a small button on the right of a field, which gets the focus."""
    row = QWidget()
    row.setFocusProxy(field)
    row_of((field, 1), button, parent=row, margins=0, spacing=4)
    return row


def side_by_side(fields: Collection[Field]) -> QGridLayout:
    """Return a row of fields under their labels; the form places their notes."""
    grid = QGridLayout()
    grid.setContentsMargins(0, 0, 0, 0)
    grid.setHorizontalSpacing(6)
    grid.setVerticalSpacing(2)
    for column, field in enumerate(fields):
        field.label.setText(f"&{field.info.title}")
        field.label.setObjectName("note")
        field.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        grid.addWidget(field.label, 0, column)
        grid.addWidget(field, 1, column)
        wide = max(len(field.info.title), len(field.info.zero))
        grid.setColumnStretch(column, max(_LEAST_SHARE, wide))
    return grid
