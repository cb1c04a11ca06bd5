"""Gives a window the height that its content needs at its width."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget


def fit_height(window: QWidget) -> None:
    """Be as high as the content needs: nothing is cut."""
    layout = window.layout()
    if layout is not None:
        layout.activate()
        height = layout.totalHeightForWidth(window.width())
        window.setMinimumHeight(height)
        window.resize(window.width(), height)
