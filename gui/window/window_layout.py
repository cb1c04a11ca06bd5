"""Where the parts of the window stand: kept from one start to the next, and as it was at first."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QObject, QSettings, Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow, QTabWidget

VERSION = 1
"""Goes up when docks change, so that a layout saved by an older version is not restored."""

DEFAULT_SIZE = (1280, 800)
LOG_HEIGHT = 160


class WindowLayout(QObject):
    """Size and place of the window, its docks, and which of the tabs at the bottom is open."""

    def __init__(
        self, window: QMainWindow, bottom: QDockWidget, tabs: QTabWidget, settings: QSettings
    ) -> None:
        """`tabs` stand in the dock `bottom`; each has a name. As they stand now is how they are at
        first."""
        super().__init__(window)
        self._window, self._bottom, self._tabs = window, bottom, tabs
        self._settings = settings
        self._first = window.saveState(VERSION)

    def save(self) -> None:
        """Keep it for the next start."""
        self._settings.setValue("window/geometry", self._window.saveGeometry())
        self._settings.setValue("window/state", self._window.saveState(VERSION))
        self._settings.setValue("window/tab", self._names()[self._tabs.currentIndex()])
        self._settings.sync()

    def restore(self) -> None:
        """Find it as it was left; what was not kept, or makes no sense, is as it was at first."""
        self.reset()
        geometry = self._settings.value("window/geometry")
        state = self._settings.value("window/state")
        if isinstance(geometry, QByteArray):
            self._window.restoreGeometry(geometry)
        if isinstance(state, QByteArray):
            self._window.restoreState(state, VERSION)
        tab = self._settings.value("window/tab")
        if tab in self._names():
            self._tabs.setCurrentIndex(self._names().index(tab))

    def reset(self) -> None:
        """As it was at first."""
        self._window.resize(*DEFAULT_SIZE)
        self._window.restoreState(self._first, VERSION)
        self._window.resizeDocks([self._bottom], [LOG_HEIGHT], Qt.Orientation.Vertical)
        self._tabs.setCurrentIndex(0)

    def _names(self) -> list[str]:
        pages = (self._tabs.widget(place) for place in range(self._tabs.count()))
        return [page.objectName() for page in pages if page is not None]
