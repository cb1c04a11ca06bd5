"""The way of Tab through the window: pane after pane, and in each as it is laid out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QApplication, QLayout, QScrollArea, QWidget


class TabOrder(QObject):
    """Qt puts what is made later at the end: so the order is looked after where the focus moves."""

    def __init__(self, window: QWidget, panes: Sequence[QWidget]) -> None:
        """Go through `panes` of `window` in their order."""
        super().__init__(window)
        self._window, self._panes = window, panes
        for area in window.findChildren(QScrollArea):
            area.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # who takes the keys is inside
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        app.focusChanged.connect(self._set_order)

    def _set_order(self, _before: QWidget | None, now: QWidget | None) -> None:
        if now is None or now.window() is not self._window:
            return
        stops = [stop for pane in self._panes for stop in _in_layout_order(pane) if _is_stop(stop)]
        for stop, following in pairwise(stops):
            QWidget.setTabOrder(stop, following)


def _is_stop(widget: QWidget) -> bool:
    return bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus) and widget.focusProxy() is None


def _in_layout_order(widget: QWidget) -> Iterator[QWidget]:
    """The widget, and all that is in it in the order of its layout; last what is in none."""
    yield widget
    layout = widget.layout()
    placed = dict.fromkeys(_placed(layout)) if layout is not None else {}
    rest = [child for child in widget.children() if isinstance(child, QWidget)]
    for child in dict.fromkeys((*placed, *rest)):
        if not child.isWindow():
            yield from _in_layout_order(child)


def _placed(layout: QLayout) -> Iterator[QWidget]:
    for place in range(layout.count()):
        item = layout.itemAt(place)
        if item is None:
            continue
        if (widget := item.widget()) is not None:
            yield widget
        elif (inner := item.layout()) is not None:
            yield from _placed(inner)
