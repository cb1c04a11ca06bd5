"""What one panel of plots keeps in the settings of the window, apart from the other panels."""

from __future__ import annotations

from PySide6.QtCore import QSettings


class Kept:
    """Choices by their names; without settings nothing is kept."""

    def __init__(self, settings: QSettings | None, room: str) -> None:
        """`room` is what the keys of this panel begin with."""
        self._settings = settings
        self._room = room

    def value(self, name: str) -> object:
        """What was kept, as the file gives it back; None: nothing."""
        return self._settings.value(self._key(name)) if self._settings is not None else None

    def keep(self, name: str, value: object) -> None:
        """Remember a choice for the next window."""
        if self._settings is not None:
            self._settings.setValue(self._key(name), value)

    def forget(self, name: str) -> None:
        """Remember it no more."""
        if self._settings is not None:
            self._settings.remove(self._key(name))

    def _key(self, name: str) -> str:
        return f"{self._room}/{name}"
