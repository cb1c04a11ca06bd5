"""The part of the window's settings that belongs to one panel of plots."""

from __future__ import annotations

from PySide6.QtCore import QSettings


class PanelSettings:
    """Values by name; without a QSettings nothing is stored."""

    def __init__(self, settings: QSettings | None, prefix: str) -> None:
        """The keys of this panel begin with `prefix`."""
        self._settings = settings
        self._prefix = prefix

    def value(self, name: str) -> object:
        """Return the stored value as the settings file returns it; None if there is none."""
        return self._settings.value(self._key(name)) if self._settings is not None else None

    def set_value(self, name: str, value: object) -> None:
        """Store a value for the next start of the window."""
        if self._settings is not None:
            self._settings.setValue(self._key(name), value)

    def remove(self, name: str) -> None:
        """Delete the stored value."""
        if self._settings is not None:
            self._settings.remove(self._key(name))

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}"
