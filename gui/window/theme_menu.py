"""Which look was chosen: remembered, and ticked in the menu."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import get_args

from PySide6.QtCore import QObject, QSettings
from PySide6.QtGui import QAction, QActionGroup

from gui.style.theme import Choice, ThemeController


class ThemeMenu(QObject):
    """Dresses the application as it was left, and as the menu says from then on."""

    def __init__(
        self, theme: ThemeController, settings: QSettings, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._theme, self._settings = theme, settings
        self._entries: Mapping[Choice, QAction] = {}
        remembered = settings.value("theme")
        if remembered in get_args(Choice):
            theme.set_choice(remembered)

    def furnish(self, entries: Mapping[Choice, QAction]) -> None:
        """Let one of the `entries` be ticked at a time, and follow it."""
        self._entries = entries
        group = QActionGroup(self)
        for choice, entry in entries.items():
            entry.setCheckable(True)
            group.addAction(entry)
            entry.triggered.connect(partial(self._choose, choice))
        self._tick()

    def toggle(self) -> None:
        """From dark to light or back; the system is no longer followed."""
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
