"""The tab order of the window: by pane, and in each pane by the order of its layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QAbstractItemView, QApplication, QScrollArea, QWidget

from gui.widgets.layouts.layout_order import widgets_in


class TabOrder(QObject):
    """Sets the tab order whenever the focus changes, because Qt puts new widgets last."""

    def __init__(self, window: QWidget, panes: Sequence[QWidget]) -> None:
        """`panes` of `window`, in the order in which Tab visits them."""
        super().__init__(window)
        self._window, self._panes = window, panes
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        app.focusChanged.connect(self._set_order)

    def _set_order(self, _before: QWidget | None, now: QWidget | None) -> None:
        if now is None or now.window() is not self._window:
            return
        for area in self._window.findChildren(QScrollArea):
            area.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # its content takes the focus
        stops = [
            stop for pane in self._panes for stop in _in_layout_order(pane) if _is_tab_stop(stop)
        ]
        for stop, following in pairwise(stops):
            QWidget.setTabOrder(stop, following)


def first_tab_stop(pane: QWidget) -> QWidget | None:
    """Return the first widget in `pane`, or `pane` itself, that the Tab key reaches.

    It does not walk along `nextInFocusChain`: PySide6 takes what that returns for a child of the
    widget that was asked, so that the whole window is taken for deleted with that widget.
    """
    stops = filter(_is_tab_stop, _in_layout_order(pane))
    return next((stop for stop in stops if stop.isVisible() and stop.isEnabled()), None)


def _is_tab_stop(widget: QWidget) -> bool:
    """Whether Qt may give `widget` the focus: also in the place of the field that it contains."""
    proxy = widget.focusProxy()
    if proxy is not None:
        return widget.isAncestorOf(proxy)
    return bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)


def _in_layout_order(widget: QWidget) -> Iterator[QWidget]:
    """Yield the widget and all widgets in it, in layout order; those without a layout come last.

    What is inside a list or a table is Qt's own: no Tab goes there. If Python asks for the header
    of a table in this way, the header is deleted together with Python's object, and the table then
    crashes when it is painted.
    """
    yield widget
    if isinstance(widget, QAbstractItemView):
        return
    layout = widget.layout()
    placed = widgets_in(layout, widget) if layout is not None else ()
    rest = [child for child in widget.children() if isinstance(child, QWidget)]
    for child in dict.fromkeys((*placed, *rest)):
        if not child.isWindow():
            yield from _in_layout_order(child)
