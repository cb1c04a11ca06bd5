"""Small parts that the run form is put together from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from engine.spec.field_info import Setting
from engine.spec.validation import Problem
from gui.widgets.entry_fields import Field

COLUMN_GAP = 10
"""Logical pixels between a name and its field."""


def entered_values(
    fields: Mapping[str, Field], prefix: str, found: list[Problem]
) -> dict[str, Setting]:
    """What stands in `fields`; where that is no value, a problem is added to `found` instead."""
    entered = {}
    for name, field in fields.items():
        try:
            entered[name] = field.value()
        except ValueError as error:
            found.append(Problem(prefix + name, str(error)))
    return entered


def align(labels: Sequence[QLabel]) -> None:
    """Make them equally wide, so that the fields beside them begin at one place."""
    width = max(label.sizeHint().width() for label in labels)
    for label in labels:
        label.setFixedWidth(width)


def stack(*widgets: QWidget) -> QWidget:
    """Widgets above each other, as one; the first takes the keys."""
    stack = QWidget()
    stack.setFocusProxy(widgets[0])
    layout = QVBoxLayout(stack)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(2)
    for widget in widgets:
        layout.addWidget(widget)
    return stack


def side_by_side(fields: Collection[Field]) -> QGridLayout:
    """Fields under their names; below them what is said of each, as wide as all of them."""
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
