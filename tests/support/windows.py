"""The end of windows: what one test leaves open is dressed anew in all tests after it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication, QMenu, QWidget


def end_menus() -> None:
    """Delete the menus of pyqtgraph's plots, which have no parent that deletes them, and whatever
    is to be deleted. Forget the theme: it is not that of the next test."""
    _delete(lambda widget: isinstance(widget, QMenu))


def end_windows() -> None:
    """Delete also what a module has left open."""
    _delete(lambda widget: widget.parentWidget() is None)


def _delete(is_over: Callable[[QWidget], bool]) -> None:
    app = QCoreApplication.instance()
    if not isinstance(app, QApplication):
        return
    for widget in app.topLevelWidgets():
        if is_over(widget):
            widget.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    if app.styleSheet():
        app.setStyleSheet("")
        app.setPalette(QPalette())
