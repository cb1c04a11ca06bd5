"""What was chosen in the bar above the plots, from one start of the window to the next."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject

from gui.plots.data.x_axis import XKind
from gui.plots.panel.panel_settings import Kept
from gui.plots.panel.toolbar import FIRST_SMOOTHING, PlotBar

_X, _SMOOTHING = "x_axis", "smoothing"


class BarMemory(QObject):
    """Puts `bar` as it was left, and keeps every choice the user makes there."""

    def __init__(self, bar: PlotBar, kept: Kept, parent: QObject) -> None:
        """What was `kept` is chosen from the beginning."""
        super().__init__(parent)
        self._bar = bar
        self._kept = kept
        self._switches = {
            "log_y": bar.log_y,
            "raw": bar.raw,
            "markers": bar.markers,
            "link_x": bar.link_x,
            "follow": bar.follow,
        }
        self._first = {key: button.isChecked() for key, button in self._switches.items()}
        self._restore()
        bar.smoothing_changed.connect(partial(kept.keep, _SMOOTHING))
        bar.x_chosen.connect(lambda kind: kept.keep(_X, kind.value))
        for key, button in self._switches.items():
            # Clicks only: a zoom ends the following too, and is no choice for the next time.
            button.clicked.connect(_keeper(kept, key))

    def reset(self) -> None:
        """Put everything as it is before the first choice, and forget the choices."""
        self._bar.set_smoothing(FIRST_SMOOTHING)
        self._bar.choose_x(XKind.STEP)
        for key, button in self._switches.items():
            button.setChecked(self._first[key])
        for key in (_X, _SMOOTHING, *self._switches):
            self._kept.forget(key)

    def _restore(self) -> None:
        kind, smoothing = self._kept.value(_X), self._kept.value(_SMOOTHING)
        if kind in list(XKind):
            self._bar.choose_x(XKind(str(kind)))
        try:
            self._bar.set_smoothing(float(str(smoothing)))
        except (ValueError, OverflowError):
            self._bar.set_smoothing(FIRST_SMOOTHING)  # nothing was kept, or what nobody wrote
        for key, button in self._switches.items():
            kept = str(self._kept.value(key)).lower()  # an INI file gives words back
            if kept in ("true", "false"):
                button.setChecked(kept == "true")


def _keeper(kept: Kept, key: str) -> Callable[[bool], None]:
    return lambda on: kept.keep(key, on)
