"""The card of one plot: title, legend with values, and curves that stay fast at any length."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QStackedWidget, QWidget

from engine.runs.store.stored_points import StoredPoints
from gui.plots.data.band import Band
from gui.plots.data.series import Series
from gui.plots.data.x_axis import XScale
from gui.plots.plot.band_curve import BandCurve
from gui.plots.plot.canvas import Canvas
from gui.plots.plot.crosshair import Reading
from gui.plots.plot.curve_set import CurveSet
from gui.plots.plot.header import PlotHeader
from gui.plots.plot.legend import NO_VALUE
from gui.plots.plot.viewport import Viewport
from gui.style.theme import Theme
from gui.widgets.boxes import column_of
from gui.widgets.plain_text import Label

MIN_HEIGHT = 150
_SAMPLE = 88.88


class CurvePlot(QFrame):
    """Points may be added at any time; `refresh`, which the owner's timer calls, paints them."""

    zoom_points_wanted = Signal(str, float, float)
    """Name of a curve, and the steps between which a zoom needs more points: answer with
    `set_zoom_points`."""

    def __init__(
        self,
        title: str,
        *,
        unit: str = "",
        value_format: str = ".4g",
        y_range: tuple[float | None, float | None] | None = None,
        wide_legend: bool = False,
        is_stacked: bool = False,
        theme: Theme,
        parent: QWidget | None = None,
    ) -> None:
        """`value_format` is a format specification; `y_range` fixes the lowest and the highest
        visible value, see `Viewport`. A `wide_legend` has a line of its own. In a plot that
        `is_stacked`, each curve is the upper edge of a part, above the curve before it."""
        super().__init__(parent)
        self.setObjectName("card")
        self.setAccessibleName(f"Plot of {title}")
        self.setMinimumHeight(MIN_HEIGHT)
        self.title = title
        self._theme = theme
        self.curves = CurveSet(value_format, unit, is_stacked=is_stacked)
        self._show_raw = True
        self._crosshair: tuple[float, str] | None = None
        """Position of the crosshair, and the text of the marks there."""

        self._headline_text = self._note = ""
        self._dirty = True
        self.canvas = Canvas(theme)
        self.canvas.setAccessibleName(self.accessibleName())
        self.viewport = Viewport(self.canvas, self.curves, y_range or (None, None), self)
        self.header = PlotHeader(title, wide_legend=wide_legend, sample=f"{_SAMPLE:{value_format}}")
        self.header.set_theme(theme)
        self.legend, self.headline = self.header.legend, self.header.headline
        self._build_layout()
        self.unit = unit
        self._show_offset("")
        self.canvas.getAxis("left").offset_changed.connect(self._show_offset)
        self.canvas.focused.connect(self._show_focus)
        self.viewport.stale.connect(self.repaint_soon)
        self.canvas.stale.connect(self.repaint_soon)
        self.legend.toggled.connect(self._set_visible)

    def set_points(self, curve_name: str, points: StoredPoints) -> None:
        """Replace the points of a curve; create the curve if necessary."""
        if curve_name in self.curves:
            self.curves[curve_name].clear()
        self.add_points(curve_name, points)

    def add_points(self, curve_name: str, points: StoredPoints) -> None:
        """Append points to a curve; create the curve if necessary. Where the points stand for
        blocks of steps, a zoom asks for more points."""
        if curve_name not in self.curves:
            self.set_curve(curve_name)
        self.curves[curve_name].extend(points)
        if len(points.step):
            self._pages.setCurrentWidget(self.canvas)
        self._dirty = True

    def set_zoom_points(self, curve_name: str, points: StoredPoints) -> None:
        """Set the zoom points of a curve: points of a part that are closer together than the
        whole."""
        if curve_name in self.curves:
            self.curves[curve_name].set_zoom_points(points)
            self._dirty = True

    def remove_curve(self, name: str) -> None:
        """Remove a curve; the view stays."""
        self.canvas.remove_curve(self.curves.remove(name))
        self.legend.remove(name)
        self._dirty = True

    def show_series(self, name: str, series: Series) -> None:
        """Let the curve `name` draw the points of `series`, to which it adds later ones."""
        self.curves[name].adopt(series)
        if len(series):
            self._pages.setCurrentWidget(self.canvas)
        self._dirty = True

    def set_band(
        self, name: str, band: Band, *, colour_index: int, label: str, short: str, about: str
    ) -> None:
        """Show the mean of several curves, with its deviation as an area, in the place of `band`
        before; `about` is added to the tooltip of its name."""
        if name not in self.curves:
            self.canvas.add_curve(self.curves.add(name, BandCurve))
        curve = self.curves[name]
        assert isinstance(curve, BandCurve)
        curve.set_band(band)
        if (curve.colour_index, curve.label, curve.about) != (colour_index, label, about):
            curve.about = about
            self.set_curve(name, colour_index=colour_index, label=label, short=short)
        self._pages.setCurrentWidget(self.canvas)
        self._dirty = True

    def clear(self) -> None:
        """Remove every curve."""
        for curve in self.curves.curves():
            self.canvas.remove_curve(curve)
        self.curves.clear()
        self.canvas.draw_best_markers([])  # the next points may be seen before they are drawn
        self.legend.clear()
        self._headline_text = self._note = ""
        self.header.show_headline("")
        self.set_crosshair(None)
        self._pages.setCurrentIndex(0)
        self._dirty = True

    def set_curve(
        self,
        name: str,
        *,
        colour_index: int | None = None,
        label: str | None = None,
        short: str | None = None,
        smooth: bool | None = None,
        dashed: bool | None = None,
        thin: bool | None = None,
        marks_gaps: bool | None = None,
        best_sign: int | None = None,
        order: tuple[int, int] | None = None,
    ) -> None:
        """Set how a curve looks; create it if necessary. None leaves a property as it is.

        The legend shows the label, or `short` where there is little room. The smoothing slider does
        not affect a curve that is not `smooth`. See `Curve` for `marks_gaps` and `best_sign`; a
        `thin` one is one of many.
        Curves are sorted by `order`; those without one come first, in the order of creation.
        """
        if name not in self.curves:
            self.canvas.add_curve(self.curves.add(name))
        curve = self.curves[name]
        if smooth is not None:
            curve.set_smooth(smooth)
        if marks_gaps is not None:
            curve.marks_gaps = marks_gaps
        if best_sign is not None:
            curve.set_best_sign(best_sign)
        if colour_index is not None:
            curve.colour_index = colour_index
        if label is not None:
            curve.label = label
        if short is not None:
            curve.short = short
        if dashed is not None:
            curve.dashed = dashed
        if thin is not None:
            curve.is_thin = thin
        self._apply_style(name)
        if order is not None:
            curve.order = order
            self.curves.sort()
            self.curves.stack()
            self.legend.arrange(list(self.curves))

    def tab_stops(self) -> list[QWidget]:
        """The widgets that Tab visits, in that order."""
        return [*self.legend.chips(), self.header.more, self.canvas]

    def set_smoothing(self, smoothing: float) -> None:
        """Set the weight of the past in the smoothed lines, 0 (none) to 0.999."""
        self.curves.set_smoothing(smoothing)
        if not smoothing:
            self.legend.forget_smoothed()
        self._dirty = True

    def set_show_raw(self, show: bool) -> None:
        """Show or hide the pale values behind smoothed lines."""
        self._show_raw = show
        self._dirty = True

    def set_log_y(self, log: bool) -> None:
        """Use a logarithmic value axis, on which values up to 0 are gaps, or a linear one."""
        if log != self.canvas.log_y:
            self.canvas.set_log_y(log)
            self.viewport.fit()

    def set_x_scale(self, scale: XScale) -> None:
        """Change what the horizontal axis shows, or how steps and times are placed on it."""
        before = self.curves.scale
        if scale != before:
            self.curves.set_x_scale(scale)
            self.canvas.set_x_scale(scale)
            self._dirty = True
        if scale.kind is not before.kind:
            self.viewport.fit()

    def set_curve_x_scale(self, name: str, scale: XScale) -> None:
        """Set the horizontal axis of one curve, in a plot whose curves belong to different runs."""
        self.curves[name].set_x_scale(scale)
        self._dirty = True

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`."""
        self._theme = theme
        self.canvas.set_theme(theme)
        self.header.set_theme(theme)
        for name in self.curves:
            self._apply_style(name)

    @property
    def theme(self) -> Theme:
        """The colours that it has now."""
        return self._theme

    def set_headline(self, text: str) -> None:
        """Show `text` at the upper right while the crosshair is hidden."""
        self._headline_text = text
        self._dirty = True

    def set_note(self, text: str) -> None:
        """Show `text` behind the headline: what a person would miss in the plot."""
        self._note = text
        self._dirty = True

    def set_crosshair(self, x: float | None, marked: str = "") -> None:
        """Show the crosshair at the position `x`, the values of the curves there in the legend, and
        the text `marked` in the plot. None hides it: the legend shows the newest values."""
        self._crosshair = None if x is None else (x, marked)
        self._show_values()

    def readings(self, x: float) -> tuple[str, list[Reading]]:
        """Return the description of the position `x`, and the values of the visible curves
        there."""
        pixel = self.canvas.pixels(1)
        return self.curves.place(x, pixel)[0], self.curves.readings(x, self._theme, pixel)

    @property
    def is_empty(self) -> bool:
        """Whether no curve has points."""
        return self._pages.currentWidget() is not self.canvas

    @property
    def is_stale(self) -> bool:
        """Whether the plot is visible and must be repainted."""
        return self._dirty and not self.visibleRegion().isEmpty()

    def refresh(self) -> bool:
        """Repaint the plot if it is stale. Return whether it was."""
        if not self.is_stale:
            return False
        self.viewport.update_view()
        for name in self.curves:
            missing = self.canvas.draw(self.curves[name], show_raw=self._show_raw)
            if missing:
                self.zoom_points_wanted.emit(name, *missing)
        self.viewport.fit_values()
        self._show_unit()
        self.canvas.draw_gaps(self.curves.curves())
        self.canvas.draw_best_markers(self.curves.best_markers(self._theme))
        self.header.show_headline(" · ".join(filter(None, (self._headline_text, self._note))))
        self._show_values()
        self._dirty = not self.curves.is_smoothed
        return True

    def show_newest(self) -> None:
        """Show the values of the newest points in the legend, before they are drawn."""
        if self.is_stale:
            self._show_values()

    def repaint_soon(self) -> None:
        """Let the next `refresh` repaint the plot."""
        self._dirty = True

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Give the legend as many lines as the new height allows."""
        super().resizeEvent(event)
        self.header.arrange()

    def event(self, event: QEvent) -> bool:
        """Adapt the pens to the pixel density of the screen that the window has been moved to."""
        if event.type() is QEvent.Type.DevicePixelRatioChange:
            for name in self.curves:
                self._apply_style(name)
        return super().event(event)

    def _show_values(self) -> None:
        x, marked = self._crosshair or (None, "")
        pixel = self.canvas.pixels(1)
        readings = self.curves.readings(x, self._theme, pixel)
        place: list[str] = []
        missing = ""
        is_visible = self.canvas.show_crosshair(x, readings, marked)
        if x is not None and not is_visible:
            readings = self.curves.readings(None, self._theme)
        elif x is not None:
            place, missing = self.curves.place(x, pixel), NO_VALUE
        self.header.show_place(place)
        self.legend.show_values(
            {each.name: (_with_place(each), each.smoothed) for each in readings}, missing
        )

    def _apply_style(self, name: str) -> None:
        curve = self.curves[name]
        curve.set_style(self._theme, self.devicePixelRatioF())
        colour = self._theme.curve(curve.colour_index)
        self.legend.set_curve(name, curve.label, colour, curve.dash, curve.short, curve.about)
        self._dirty = True

    def _set_visible(self, name: str, visible: bool) -> None:
        self.curves[name].visible = visible
        self._dirty = True

    @property
    def left_out(self) -> str:
        """How many of the points are not drawn, and why; empty: all are."""
        shown = [curve for curve in self.curves.curves() if curve.visible]
        is_coarse = any(curve.coarse_count for curve in shown)
        not_finite = sum(curve.series.not_finite for curve in shown if curve.marks_gaps)
        low = sum(curve.series.not_positive for curve in shown) if self.canvas.log_y else 0
        found = [
            _count(low, "≤ 0 not drawn", is_coarse=is_coarse),
            _count(not_finite, "not finite", is_coarse=is_coarse),
        ]
        return ", ".join(filter(None, found))

    def _show_offset(self, offset: str) -> None:
        self._offset = offset
        self._show_unit()

    def _show_unit(self) -> None:
        """Say in the header the unit, to what each tick label is added, and what is not drawn."""
        added = f"{self._offset} + …" if self._offset else ""
        left_out = self.left_out
        tip = (
            "NaN, infinity and values beyond 1e300 are gaps, with a mark below. A logarithmic axis "
            "has no place for values at or below 0."
        )
        self.header.show_unit(
            ", ".join(filter(None, (self.unit, added, left_out))), tip if left_out else ""
        )

    def _show_focus(self, focused: bool) -> None:
        self.setProperty("focused", focused)
        self.style().polish(self)

    def _build_layout(self) -> None:
        empty = Label("No points yet", alignment=Qt.AlignmentFlag.AlignCenter)
        empty.setObjectName("mut")
        self._pages = QStackedWidget()
        self._pages.addWidget(empty)
        self._pages.addWidget(self.canvas)
        column_of(self.header, (self._pages, 1), parent=self, margins=(10, 6, 6, 4), spacing=2)


def _count(number: int, why: str, *, is_coarse: bool) -> str:
    """Say of how many points something is true; empty: of none."""
    if number and is_coarse:
        return f"values {why}"  # a block does not tell how many it has
    return f"{number:,} {'point' if number == 1 else 'points'} {why}" if number else ""


def _with_place(reading: Reading) -> str:
    return f"{reading.value} @ {reading.at}" if reading.at else reading.value
