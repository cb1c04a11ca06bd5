"""Saves and restores the size and layout of the window."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QObject, QSettings, Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow, QTabWidget

VERSION = 1
"""Increase it when docks change: a layout of another version is not restored."""

DEFAULT_SIZE = (1280, 800)
LOG_HEIGHT = 160


class WindowLayout(QObject):
    """The size, position, docks and open bottom tab of the window."""

    def __init__(
        self, window: QMainWindow, bottom: QDockWidget, tabs: QTabWidget, settings: QSettings
    ) -> None:
        """`tabs` are in the dock `bottom`, and each page has an object name. The current layout
        becomes the default layout."""
        super().__init__(window)
        self._window, self._bottom, self._tabs = window, bottom, tabs
        self._settings = settings
        self._default = window.saveState(VERSION)

    def save(self) -> None:
        """Save the layout for the next start."""
        self._settings.setValue("window/geometry", self._window.saveGeometry())
        self._settings.setValue("window/state", self._window.saveState(VERSION))
        self._settings.setValue("window/tab", self._tab_names()[self._tabs.currentIndex()])
        self._settings.sync()

    def restore(self) -> None:
        """Restore the saved layout; missing and invalid values get their defaults."""
        self.reset()
        geometry = self._settings.value("window/geometry")
        state = self._settings.value("window/state")
        if isinstance(geometry, QByteArray):
            self._window.restoreGeometry(geometry)
        if isinstance(state, QByteArray):
            self._window.restoreState(state, VERSION)
        tab = self._settings.value("window/tab")
        if tab in self._tab_names():
            self._tabs.setCurrentIndex(self._tab_names().index(tab))

    def reset(self) -> None:
        """Restore the default layout."""
        self._window.resize(*DEFAULT_SIZE)
        self._window.restoreState(self._default, VERSION)
        self._window.resizeDocks([self._bottom], [LOG_HEIGHT], Qt.Orientation.Vertical)
        self._tabs.setCurrentIndex(0)

    def _tab_names(self) -> list[str]:
        pages = (self._tabs.widget(index) for index in range(self._tabs.count()))
        return [page.objectName() for page in pages if page is not None]
