"""Saves and restores the size and layout of the window."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QObject, QSettings, QSize
from PySide6.QtWidgets import QMainWindow

from gui.window.body import DEFAULT_WIDTH, FOLDED, Body
from gui.window.lower_panel import HEIGHT, LowerPanel, RunPage

DEFAULT_SIZE = QSize(1280, 800)
_FRAME = QSize(16, 40)
"""Logical pixels that the frame of a window may take, before it is known."""

_GEOMETRY, _TAB = "window/geometry", "window/tab"
_COLUMN_WIDTH, _FOLDED = "window/column_width", "window/folded_{page}"
_LOWER, _LOWER_HEIGHT = "window/lower_panel", "window/lower_panel_height"


class WindowLayout(QObject):
    """The size and position of the window, its column, and its lower panel."""

    def __init__(
        self,
        window: QMainWindow,
        body: Body,
        run_page: RunPage,
        panel: LowerPanel,
        settings: QSettings,
    ) -> None:
        """All are parts of `window`."""
        super().__init__(window)
        self._window, self._settings = window, settings
        self._body, self._run_page, self._panel = body, run_page, panel

    def save(self) -> None:
        """Save the layout for the next start."""
        settings = self._settings
        settings.setValue(_GEOMETRY, self._window.saveGeometry())
        settings.setValue(_TAB, self._panel.page_names()[self._panel.tabs.currentIndex()])
        settings.setValue(_COLUMN_WIDTH, self._body.column_width)
        for page, folded in self._body.folded_pages.items():
            settings.setValue(_FOLDED.format(page=page), folded)
        if chosen := self._run_page.chosen:
            settings.setValue(_LOWER, chosen)
        else:
            settings.remove(_LOWER)
        settings.setValue(_LOWER_HEIGHT, self._run_page.panel_height)
        settings.sync()

    def restore(self) -> None:
        """Restore the saved layout; missing and invalid values get their defaults."""
        self.reset()
        settings = self._settings
        geometry = settings.value(_GEOMETRY)
        if isinstance(geometry, QByteArray):
            self._window.restoreGeometry(geometry)
        tab, names = settings.value(_TAB), self._panel.page_names()
        if tab in names:
            self._panel.tabs.setCurrentIndex(names.index(str(tab)))
        self._body.set_column_width(self._number(_COLUMN_WIDTH, DEFAULT_WIDTH))
        folded = self._body.folded_pages
        for page in folded:
            saved = str(settings.value(_FOLDED.format(page=page))).lower()  # INI has strings
            folded[page] = folded[page] if saved not in ("true", "false") else saved == "true"
        self._body.set_folded_pages(folded)
        chosen = settings.value(_LOWER)
        height = self._number(_LOWER_HEIGHT, HEIGHT)
        self._run_page.restore(chosen if isinstance(chosen, str) else None, height)

    def reset(self) -> None:
        """Restore the default layout."""
        window = self._window
        if not window.isMaximized() and not window.isFullScreen():
            window.resize(DEFAULT_SIZE)
        self._body.set_column_width(DEFAULT_WIDTH)
        self._body.set_folded_pages(FOLDED)
        self._run_page.restore(None, HEIGHT)
        self._panel.tabs.setCurrentIndex(0)

    def show_on_screen(self) -> None:
        """Show the window within the usable area of its screen.

        A window that does not fit there is maximised.
        """
        window = self._window
        if (screen := window.screen()) is not None:
            usable = screen.availableGeometry()
            frame = window.frameGeometry().size() - window.size()
            needed = window.size() + frame.expandedTo(_FRAME)
            if needed.width() > usable.width() or needed.height() > usable.height():
                window.resize(window.size().boundedTo(usable.size() - _FRAME))
                window.move(usable.topLeft())
                window.showMaximized()
                return
        window.show()

    def _number(self, key: str, default: int) -> int:
        try:
            return int(str(self._settings.value(key)))
        except ValueError:
            return default
