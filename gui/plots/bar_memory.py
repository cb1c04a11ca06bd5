"""What was chosen in the bar above the plots, from one start of the window to the next."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, QSettings
from PySide6.QtWidgets import QToolButton

from gui.plots.plot_bar import FIRST_SMOOTHING, PlotBar
from gui.plots.x_scale import XKind

_X, _SMOOTHING = "plots/x_axis", "plots/smoothing"


class BarMemory(QObject):
    """Puts `bar` as it was left, and keeps every choice the user makes there."""

    def __init__(self, bar: PlotBar, settings: QSettings | None, parent: QObject) -> None:
        """Without `settings` nothing is kept."""
        super().__init__(parent)
        self._bar = bar
        self._settings = settings
        self._switches = {
            "plots/log_y": bar.log_y,
            "plots/raw": bar.raw,
            "plots/markers": bar.markers,
            "plots/link_x": bar.link_x,
            "plots/follow": bar.follow,
        }
        self._first = {key: button.isChecked() for key, button in self._switches.items()}
        if settings is not None:
            self._restore(settings)
            bar.smoothing_changed.connect(partial(settings.setValue, _SMOOTHING))
            bar.x_chosen.connect(lambda kind: settings.setValue(_X, kind.value))
            for key, button in self._switches.items():
                # Clicks only: a zoom ends the following too, and is no choice for the next time.
                button.clicked.connect(_keeper(settings, key))

    def reset(self) -> None:
        """Put everything as it is before the first choice, and forget the choices."""
        self._bar.set_smoothing(FIRST_SMOOTHING)
        self._bar.choose_x(XKind.STEP)
        for key, button in self._switches.items():
            _switch(button, self._first[key])
        for key in (_X, _SMOOTHING, *self._switches):
            if self._settings is not None:
                self._settings.remove(key)

    def _restore(self, settings: QSettings) -> None:
        kind, smoothing = settings.value(_X), settings.value(_SMOOTHING)
        if kind in list(XKind):
            self._bar.choose_x(XKind(kind))
        try:
            self._bar.set_smoothing(float(str(smoothing)))
        except (ValueError, OverflowError):
            self._bar.set_smoothing(FIRST_SMOOTHING)  # nothing was kept, or what nobody wrote
        for key, button in self._switches.items():
            kept = str(settings.value(key)).lower()  # an INI file gives words back
            if kept in ("true", "false"):
                _switch(button, kept == "true")


def _keeper(settings: QSettings, key: str) -> Callable[[bool], None]:
    return lambda on: settings.setValue(key, on)


def _switch(button: QToolButton, on: bool) -> None:
    button.setChecked(on)
