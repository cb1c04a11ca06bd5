"""The menu Theme: the choice is remembered in the settings and ticked in the menu."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import get_args

from PySide6.QtCore import QObject, QSettings
from PySide6.QtGui import QAction, QActionGroup

from gui.style.theme import Choice, ThemeController


def restore_theme(theme: ThemeController, settings: QSettings) -> None:
    """Choose the theme of the last time; call it before any widget is made with a theme."""
    remembered = settings.value("theme")
    if remembered in get_args(Choice):
        theme.set_choice(remembered)


class ThemeMenu(QObject):
    """Sets the theme that is ticked in the menu; exactly one entry is."""

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
        """Switch between dark and light; the theme of the system is no longer followed."""
        self._theme.toggle()
        self._remember()

    def _choose(self, choice: Choice) -> None:
        self._theme.set_choice(choice)
        self._remember()

    def _remember(self) -> None:
        self._settings.setValue("theme", self._theme.choice)
        self._tick()

    def _tick(self) -> None:
        self._entries[self._theme.choice].setChecked(True)
