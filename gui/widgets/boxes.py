"""Rows and columns made of their parts in one expression, and what scrolls them."""

from __future__ import annotations

from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLayout,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

Align = Qt.AlignmentFlag
Part = (
    QWidget | QLayout | int | tuple[QWidget | QLayout, int] | tuple[QWidget | QLayout, int, Align]
)
"""A widget or a layout, perhaps with its stretch and its alignment; a number is empty space that
stretches so much."""

STRETCH = 1
Margins = int | tuple[int, int, int, int] | None
"""On all sides, or left, top, right and bottom; None: those of the style."""

Box = TypeVar("Box", bound=QBoxLayout)


def row_of(
    *parts: Part,
    parent: QWidget | None = None,
    margins: Margins = None,
    spacing: int | None = None,
) -> QHBoxLayout:
    """Return the parts from left to right; with `parent`, as its layout."""
    return _filled(QHBoxLayout(), parent, parts, margins, spacing)


def column_of(
    *parts: Part,
    parent: QWidget | None = None,
    margins: Margins = None,
    spacing: int | None = None,
) -> QVBoxLayout:
    """Return the parts from top to bottom; with `parent`, as its layout."""
    return _filled(QVBoxLayout(), parent, parts, margins, spacing)


def scrolled(content: QWidget, *, sideways: bool = True) -> QScrollArea:
    """Return an area without a frame in which `content` is scrolled if it has no room."""
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    if not sideways:
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setWidget(content)
    return area


def _filled(
    box: Box,
    parent: QWidget | None,
    parts: tuple[Part, ...],
    margins: Margins,
    spacing: int | None,
) -> Box:
    if parent is not None:
        parent.setLayout(box)
    if margins is not None:
        box.setContentsMargins(*((margins,) * 4 if isinstance(margins, int) else margins))
    if spacing is not None:
        box.setSpacing(spacing)
    for part in parts:
        _add(box, part)
    return box


def _add(box: QBoxLayout, part: Part) -> None:
    if isinstance(part, int):
        box.addStretch(part)
        return
    what, stretch, *align = part if isinstance(part, tuple) else (part, 0)
    if isinstance(what, QWidget):
        box.addWidget(what, stretch, *align)
    else:
        box.addLayout(what, stretch)
