"""The one figure that stands for all devices in the corner of their plot."""

from __future__ import annotations

import numpy as np

from gui.plots.pyramid import Array
from gui.plots.routes import DEVICE_UTILISATION, PlotKind


class DeviceHeadlines:
    """Remembers each device's newest utilisation and its highest memory."""

    def __init__(self) -> None:
        self._figures: dict[PlotKind, dict[str, float]] = {}

    def clear(self) -> None:
        """Forget the devices."""
        self._figures.clear()

    def take(self, kind: PlotKind, device: str, values: Array, *, replace: bool) -> str:
        """Take new values of a device, in the plot's unit; what to say of all devices now."""
        figures = self._figures.setdefault(kind, {})
        if replace:
            figures.pop(device, None)
        known = values[np.isfinite(values)]
        if kind is DEVICE_UTILISATION:
            if len(known):
                figures[device] = float(known[-1])
            mean = f"{sum(figures.values()) / max(len(figures), 1):.0f} %"
            return (f"{mean} mean" if len(figures) > 1 else mean) if figures else ""
        if len(known):
            figures[device] = max(float(known.max()), figures.get(device, 0.0))
        return f"{max(figures.values()):.1f} GiB peak" if figures else ""
