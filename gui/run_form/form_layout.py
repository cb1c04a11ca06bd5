"""Layout helpers of the run form, and reading the values of its fields."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from engine.spec.field_info import Setting
from engine.spec.validation import Problem
from gui.widgets.entry_fields import Field

COLUMN_GAP = 10
"""Logical pixels between a label and its field."""


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


def stack(*widgets: QWidget) -> QWidget:
    """Return one widget with `widgets` above each other; the first gets the keyboard focus."""
    stack = QWidget()
    stack.setFocusProxy(widgets[0])
    layout = QVBoxLayout(stack)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(2)
    for widget in widgets:
        layout.addWidget(widget)
    return stack


def side_by_side(fields: Collection[Field]) -> QGridLayout:
    """Return a row of fields under their labels, with their notes below at full width."""
    grid = QGridLayout()
    grid.setHorizontalSpacing(6)
    grid.setVerticalSpacing(2)
    for column, field in enumerate(fields):
        field.label.setText(f"&{field.info.title}")
        field.label.setObjectName("note")
        field.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        grid.addWidget(field.label, 0, column)
        grid.addWidget(field, 1, column)
        grid.addWidget(field.note_label, 2 + column, 0, 1, len(fields))
        grid.setColumnStretch(column, 1)
    return grid
