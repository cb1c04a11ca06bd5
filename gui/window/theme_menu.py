"""The menu Theme: applies and saves the choice of the user."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import get_args

from PySide6.QtCore import QObject, QSettings
from PySide6.QtGui import QAction, QActionGroup

from gui.style.theme import Choice, ThemeController


def restore_theme(theme: ThemeController, settings: QSettings) -> None:
    """Apply the saved theme; call this before widgets are created with a theme."""
    saved = settings.value("theme")
    if saved in get_args(Choice):
        theme.set_choice(saved)


class ThemeMenu(QObject):
    """Sets the theme whose entry is ticked; exactly one entry is ticked."""

    def __init__(
        self,
        theme: ThemeController,
        settings: QSettings,
        entries: Mapping[Choice, QAction],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme, self._settings, self._entries = theme, settings, entries
        group = QActionGroup(self)
        for choice, entry in entries.items():
            entry.setCheckable(True)
            group.addAction(entry)
            entry.triggered.connect(partial(self._choose, choice))
        self._tick()

    def toggle(self) -> None:
        """Switch between dark and light, and stop following the theme of the system."""
        self._theme.toggle()
        self._save()

    def _choose(self, choice: Choice) -> None:
        self._theme.set_choice(choice)
        self._save()

    def _save(self) -> None:
        self._settings.setValue("theme", self._theme.choice)
        self._tick()

    def _tick(self) -> None:
        self._entries[self._theme.choice].setChecked(True)
