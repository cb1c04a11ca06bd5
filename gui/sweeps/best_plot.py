"""The curve of the best run of a sweep over the range of the others."""

from __future__ import annotations

from functools import partial

import numpy as np
from PySide6.QtWidgets import QWidget

from engine.sweeps.report import SweepReport
from gui.bridge.background import Background, Reading
from gui.bridge.curves.sweep_curves import SweepCurves, SweepLines
from gui.plots.data.band import Band, quantile_band
from gui.plots.panel.repaint_timer import RepaintTimer
from gui.plots.plot.curve_plot import CurvePlot
from gui.style.theme import Theme
from gui.sweeps.axes import result_title
from gui.widgets.boxes import column_of

LOW, HIGH = 0.1, 0.9
"""The band lies between these shares of the other runs."""

_POSITIONS = 300
_LOG_RATIO = 30.0
"""A positive curve that spans more than this factor has a logarithmic axis."""

_BEST, _OTHERS = "best", "others"
_BEST_COLOUR, _OTHERS_COLOUR = 4, 0
"""In the cycle of the theme: best values have the yellow one."""


class BestPlot(QWidget):
    """Reads the curves of the shown sweep in the background; they are drawn as they come."""

    def __init__(self, background: Background, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._sweep = ""
        self._title = ""
        self._averaging = Reading(background, self._show)
        self.curves = SweepCurves(background, self)
        self.curves.arrived.connect(self._take)
        self._layout = column_of(parent=self, margins=0)
        self.plot = self._made("")
        self._frames = RepaintTimer(lambda: self.plot.refresh(), self)

    def set_running(self, running: bool) -> None:
        """Paint what is new, or nothing while the page is hidden."""
        if running:
            self._frames.start()
        else:
            self._frames.stop()

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`."""
        self._theme = theme
        self.plot.set_theme(theme)

    def show_report(self, report: SweepReport | None) -> None:
        """Show the best run of a sweep; None: nothing."""
        title = result_title(report.sweep) if report and report.sweep else ""
        number = report.summary.sweep if report else ""
        if (number, title) != (self._sweep, self._title):
            self._sweep, self._title = number, title
            self._layout.removeWidget(self.plot)
            self.plot.deleteLater()
            self.plot = self._made(title)
        if report and report.sweep:
            self.curves.show(report)

    def _made(self, title: str) -> CurvePlot:
        plot = CurvePlot(title, theme=self._theme)
        plot.header.more.hide()
        plot.canvas.hovered.connect(lambda x, *_: plot.set_crosshair(x))
        plot.setFrameShape(CurvePlot.Shape.NoFrame)
        plot.setObjectName("")
        self._layout.addWidget(plot)
        return plot

    def _take(self, lines: SweepLines) -> None:
        self._averaging.ask(partial(_with_band, lines))

    def _show(self, answer: tuple[SweepLines, Band | None]) -> None:
        if answer[0].sweep == self._sweep:
            self._draw(*answer)

    def _draw(self, lines: SweepLines, band: Band | None) -> None:
        if band is not None:
            self.plot.set_band(
                _OTHERS,
                band,
                colour_index=_OTHERS_COLOUR,
                label=f"{band.curves:,} others, 10–90 %",
                short="others",
                about="The median of the other runs, and between which 80 % of them lie",
            )
        elif _OTHERS in self.plot.curves:
            self.plot.remove_curve(_OTHERS)
        if lines.points is not None:
            self.plot.set_points(_BEST, lines.points)
            label = f"Best: run {lines.best}"
            self.plot.set_curve(_BEST, colour_index=_BEST_COLOUR, label=label, order=(0, 0))
        elif _BEST in self.plot.curves:
            self.plot.remove_curve(_BEST)
        self.plot.set_note(f"Reading {lines.unread:,} runs…" if lines.unread else "")
        self.plot.set_log_y(_wants_log(lines, band))


def _with_band(lines: SweepLines) -> tuple[SweepLines, Band | None]:
    others = lines.others
    return lines, quantile_band(others, LOW, HIGH, _POSITIONS) if others else None


def _wants_log(lines: SweepLines, band: Band | None) -> bool:
    """Whether the values spread over so many decades that a linear axis shows little."""
    values = [lines.points.value] if lines.points is not None else []
    if band is not None and band.edges is not None:
        values += band.edges
    if not values:
        return False
    joined = np.concatenate(values)
    joined = joined[np.isfinite(joined)]
    return bool(len(joined)) and joined.min() > 0 and bool(joined.max() / joined.min() > _LOG_RATIO)
