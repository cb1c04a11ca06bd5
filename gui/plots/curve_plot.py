"""The card of one plot: title, legend, newest value, and curves that stay fast at any length."""

from __future__ import annotations

import math

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QStackedWidget, QVBoxLayout, QWidget

from gui.plots.canvas import Canvas
from gui.plots.crosshair import Reading
from gui.plots.curve import Curve
from gui.plots.legend import MOST_NAMED, MOST_NAMED_ALONE, Legend
from gui.plots.pyramid import Array
from gui.plots.ranges import Range, union
from gui.theme import Theme

_MIN_HEIGHT = 150


class CurvePlot(QFrame):
    """Takes points at any time and paints them in `refresh`, which its owner's timer calls."""

    hovered = Signal(object)
    """Step under the mouse (float), or None when the mouse has left."""

    followed = Signal(bool)
    """Whether the view goes on to show everything; a zoom by hand ends that."""

    zoomed = Signal(float, float)
    """First and last step in sight, after the user has moved the view."""

    fitted = Signal()
    """The user has asked to see everything, by a double click."""

    def __init__(
        self,
        title: str,
        *,
        unit: str = "",
        value_format: str = ".4g",
        y_range: tuple[float | None, float | None] | None = None,
        wide_legend: bool = False,
        theme: Theme,
        parent: QWidget | None = None,
    ) -> None:
        """`value_format` is a format specification. `y_range` fixes the lowest or the highest value
        in sight while following; None leaves an end to the points. A `wide_legend` has a line of
        its own."""
        super().__init__(parent)
        self.setObjectName("card")
        self.setAccessibleName(f"Plot of {title}")
        self.setMinimumHeight(_MIN_HEIGHT)
        self.title = title
        self._unit = f" {unit}" if unit else ""
        self._format = value_format
        self._y_range = y_range or (None, None)
        self._theme = theme
        self._curves: dict[str, Curve] = {}
        self._smoothing = 0.0
        self._show_raw = True
        self._follow = True
        self._fit_once = False
        self._x_extent: Range | None = None
        self._best: tuple[float, float] | None = None
        self._crosshair_step: float | None = None
        self._headline_text = ""
        self._dirty = True
        self.canvas = Canvas(theme)
        self.legend = Legend(MOST_NAMED_ALONE if wide_legend else MOST_NAMED)
        self.headline = QLabel()
        self._lay_out(wide_legend=wide_legend)
        self.canvas.hovered.connect(self.hovered)
        self.canvas.moved.connect(self._moved_by_hand)
        self.canvas.fit_requested.connect(self._fit_by_hand)
        self.canvas.stale.connect(self._set_dirty)
        self.legend.toggled.connect(self._set_visible)

    def set_points(self, curve_name: str, steps: Array, values: Array) -> None:
        """Replace the points of a curve, which is made where there is none."""
        if curve_name in self._curves:
            self._curves[curve_name].series.clear()
        self.add_points(curve_name, steps, values)

    def add_points(self, curve_name: str, steps: Array, values: Array) -> None:
        """Append points (ascending steps) to a curve, which is made where there is none."""
        if curve_name not in self._curves:
            self.set_curve(curve_name)
        self._curves[curve_name].series.extend(steps, values)
        self._pages.setCurrentWidget(self.canvas)
        self._dirty = True

    def clear(self) -> None:
        """Drop every curve."""
        for curve in self._curves.values():
            self.canvas.remove_curve(curve)
        self._curves.clear()
        self.legend.clear()
        self._best = None
        self._headline_text = ""
        self.headline.clear()
        self.set_crosshair(None)
        self._pages.setCurrentIndex(0)
        self._dirty = True

    def curve_names(self) -> list[str]:
        """The curves there are, in their order."""
        return list(self._curves)

    def set_curve(
        self,
        name: str,
        *,
        colour_index: int | None = None,
        label: str | None = None,
        smooth: bool | None = None,
        marks_gaps: bool | None = None,
    ) -> None:
        """Say how a curve looks, making it if needed; None leaves that as it is. What `smooth` and
        `marks_gaps` mean stands in `Curve`."""
        curve = self._curves.get(name)
        if curve is None:
            curve = self._curves[name] = Curve(name, len(self._curves))
            self.canvas.add_curve(curve)
        if smooth is not None:
            curve.smooth = smooth
        if marks_gaps is not None:
            curve.marks_gaps = marks_gaps
        curve.series.set_smoothing(self._smoothing if curve.smooth else 0.0)
        if colour_index is not None:
            curve.colour_index = colour_index
        if label is not None:
            curve.label = label
        self._dress(name)

    def set_smoothing(self, smoothing: float) -> None:
        """Weight of the past in the smoothed lines, 0 (none) to 0.999."""
        self._smoothing = smoothing
        for curve in self._curves.values():
            if curve.smooth:
                curve.series.set_smoothing(smoothing)
        self._dirty = True

    def set_show_raw(self, show: bool) -> None:
        """Show or hide the faint values behind smoothed lines."""
        self._show_raw = show
        self._dirty = True

    def set_log_y(self, log: bool) -> None:
        """Logarithmic values, where what is not above 0 is a gap, or linear ones."""
        if log != self.canvas.log_y:
            self.canvas.set_log_y(log)
            self.fit()

    def set_follow(self, follow: bool) -> None:
        """Go on showing everything as points arrive, or hold the view still."""
        if follow != self._follow:
            self._follow = follow
            self._dirty = True
            self.followed.emit(follow)

    def fit(self) -> None:
        """Show everything, once."""
        self._fit_once = True
        self._dirty = True

    def show_steps(self, steps: Range) -> None:
        """Bring exactly these steps in sight, as another plot does."""
        self.canvas.show_steps(steps)

    def steps(self) -> Range | None:
        """First and last step of all curves, or None without points."""
        return union(curve.series.steps() for curve in self._curves.values())

    def set_x_extent(self, extent: Range | None) -> None:
        """Take these steps for "everything", as linked plots do; None: this plot's own."""
        if extent != self._x_extent:
            self._x_extent = extent
            self._dirty = True

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of `theme`."""
        self._theme = theme
        self.canvas.set_theme(theme)
        for name in self._curves:
            self._dress(name)

    def set_headline(self, text: str) -> None:
        """Say `text` at the upper right; empty: the first curve's newest value."""
        self._headline_text = text
        self._dirty = True

    def mark_best(self, step: float, value: float) -> None:
        """Put a star there."""
        self._best = (step, value)
        self._dirty = True

    def set_crosshair(self, step: float | None) -> None:
        """Show what the curves have at `step`, or nothing."""
        self._crosshair_step = step
        if step is None:
            self.canvas.crosshair.hide()
            return
        readings = []
        for curve in self._curves.values():
            if curve.visible and curve.covers(step):
                colour = self._theme.curve(curve.colour_index)
                readings.append(Reading(curve.label, colour, self._spoken(curve.value_at(step))))
        self.canvas.crosshair.show(step, readings)

    def refresh(self) -> bool:
        """Paint what has changed, if anything has and it can be seen; whether it did."""
        if not self._dirty or self.visibleRegion().isEmpty():
            return False
        if self._follow or self._fit_once:
            self._show_everything()
        for curve in self._curves.values():
            self.canvas.draw(curve, show_raw=self._show_raw)
        self.canvas.draw_best(self._best)
        self.headline.setText(self._headline_text or self._newest())
        if self._crosshair_step is not None:
            self.set_crosshair(self._crosshair_step)
        self._fit_once = self._dirty = False
        return True

    def event(self, event: QEvent) -> bool:
        """Fit the pens to the screen that the window has been moved to."""
        if event.type() is QEvent.Type.DevicePixelRatioChange:
            for name in self._curves:
                self._dress(name)
        return super().event(event)

    def _show_everything(self) -> None:
        steps = self._x_extent or self.steps()
        log = self.canvas.log_y
        values = union(
            curve.series.bounds(positive=log) for curve in self._curves.values() if curve.visible
        )
        low, high = values or ((1.0, 10.0) if log else (0.0, 1.0))
        fixed_low, fixed_high = self._y_range
        if fixed_low is not None and not (log and fixed_low <= 0):
            low = min(low, fixed_low)
        if fixed_high is not None:
            high = max(high, fixed_high)
        self.canvas.show_all(steps or (0.0, 1.0), (low, high))

    def _newest(self) -> str:
        shown = (curve for curve in self._curves.values() if curve.visible and len(curve.series))
        first = next(shown, None)
        return self._spoken(first.series.last) if first else ""

    def _spoken(self, value: float) -> str:
        return f"{value:{self._format}}{self._unit}" if math.isfinite(value) else str(value)

    def _dress(self, name: str) -> None:
        curve = self._curves[name]
        curve.set_look(self._theme, self.devicePixelRatioF())
        self.legend.set_curve(name, curve.label, self._theme.curve(curve.colour_index))
        self._dirty = True

    def _set_visible(self, name: str, visible: bool) -> None:
        self._curves[name].visible = visible
        self._dirty = True

    def _set_dirty(self) -> None:
        self._dirty = True

    def _moved_by_hand(self, first: float, last: float) -> None:
        self.set_follow(False)
        self.zoomed.emit(first, last)

    def _fit_by_hand(self) -> None:
        self.fit()
        self.fitted.emit()

    def _lay_out(self, *, wide_legend: bool) -> None:
        title = QLabel(self.title)
        for label in (title, self.headline):
            label.setObjectName("ttl")
        empty = QLabel("No points yet")
        empty.setObjectName("mut")
        empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._pages = QStackedWidget()
        self._pages.addWidget(empty)
        self._pages.addWidget(self.canvas)
        top = QHBoxLayout()
        top.setSpacing(8)
        top.addWidget(title)
        if wide_legend:
            top.addStretch(1)
        else:
            top.addWidget(self.legend, 1)
        top.addWidget(self.headline)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 6, 10, 4)
        layout.setSpacing(2)
        layout.addLayout(top)
        if wide_legend:
            layout.addWidget(self.legend)
        layout.addWidget(self._pages, 1)
