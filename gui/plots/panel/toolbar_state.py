"""Stores the choices made in the toolbar of the plots and restores them at the next start."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject

from gui.plots.data.x_axis import XKind
from gui.plots.panel.toolbar import FIRST_SMOOTHING, PlotToolbar
from gui.widgets.panel_settings import PanelSettings

_X, _SMOOTHING = "x_axis", "smoothing"


class ToolbarState(QObject):
    """Restores `toolbar` from `settings`, and stores every choice that the user makes there."""

    def __init__(self, toolbar: PlotToolbar, settings: PanelSettings, parent: QObject) -> None:
        """Restore the toolbar at once."""
        super().__init__(parent)
        self._toolbar = toolbar
        self._settings = settings
        self._switches = {
            "log_y": toolbar.log_y,
            "raw": toolbar.raw,
            "markers": toolbar.markers,
            "link_x": toolbar.link_x,
            "follow": toolbar.follow,
        }
        self._defaults = {key: button.isChecked() for key, button in self._switches.items()}
        self._restore()
        toolbar.smoothing_changed.connect(partial(settings.set_value, _SMOOTHING))
        toolbar.x_chosen.connect(lambda kind: settings.set_value(_X, kind.value))
        for key, button in self._switches.items():
            # Only clicks are stored: a zoom switches "Follow" off, too, but is no choice to keep.
            button.clicked.connect(_setter(settings, key))

    def reset(self) -> None:
        """Set everything to its default, and delete the stored choices."""
        self._toolbar.set_smoothing(FIRST_SMOOTHING)
        self._toolbar.choose_x(XKind.STEP)
        for key, button in self._switches.items():
            button.setChecked(self._defaults[key])
        for key in (_X, _SMOOTHING, *self._switches):
            self._settings.remove(key)

    def _restore(self) -> None:
        kind, smoothing = self._settings.value(_X), self._settings.value(_SMOOTHING)
        if kind in list(XKind):
            self._toolbar.choose_x(XKind(str(kind)))
        try:
            self._toolbar.set_smoothing(float(str(smoothing)))
        except (ValueError, OverflowError):
            self._toolbar.set_smoothing(FIRST_SMOOTHING)  # nothing is stored, or it is damaged
        for key, button in self._switches.items():
            stored = str(self._settings.value(key)).lower()  # an INI file returns strings
            if stored in ("true", "false"):
                button.setChecked(stored == "true")


def _setter(settings: PanelSettings, key: str) -> Callable[[bool], None]:
    return lambda checked: settings.set_value(key, checked)
