"""Texts that are shown as they are: Qt takes a label or a tooltip with a tag in it for HTML.

Names, notes, paths, series and messages come from files and recipes; as HTML they could hide a part
of a text, or load a file.
"""

from __future__ import annotations

from html import escape
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import Qt as GuiQt
from PySide6.QtWidgets import QLabel, QWidget


class Label(QLabel):
    """A label that shows its text as it is. All labels of the window are such labels."""

    def __init__(self, *arguments: Any, **properties: Any) -> None:
        super().__init__(*arguments, **properties)
        self.setTextFormat(Qt.TextFormat.PlainText)


def wrapped(tip: str) -> str:
    """Return `tip` as rich text that looks like it: Qt breaks only rich text into lines."""
    return f"<p>{escape(tip).replace(chr(10), '<br>')}</p>" if tip else ""


def set_wrapped_tip(widget: QWidget, tip: str) -> None:
    """Set `tip`, in lines, as the tooltip of `widget`, and as the description that a screen reader
    reads: Qt would give it the markup of the tooltip."""
    widget.setToolTip(wrapped(tip))
    widget.setAccessibleDescription(tip)


def plain_tip(tip: str) -> str:
    """Return `tip` for a tooltip that shows it as it is, and as a rule unchanged."""
    return wrapped(tip) if GuiQt.mightBeRichText(tip) else tip
