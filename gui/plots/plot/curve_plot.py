"""The card of one plot: title, legend, newest value, and curves that stay fast at any length."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QFrame, QLabel, QStackedWidget, QVBoxLayout, QWidget

from engine.runs.store_reader import StoredPoints
from gui.plots.data.series_style import display_name
from gui.plots.data.x_axis import XScale
from gui.plots.plot.canvas import Canvas
from gui.plots.plot.crosshair import Reading
from gui.plots.plot.curve_set import CurveSet
from gui.plots.plot.header import PlotHeader
from gui.plots.plot.viewport import Viewport
from gui.style.theme import Theme

MIN_HEIGHT = 150


class CurvePlot(QFrame):
    """Takes points at any time and paints them in `refresh`, which its owner's timer calls."""

    zoom_points_wanted = Signal(str, float, float)
    """Name of a curve, and the steps between which finer points of it would show: the answer goes
    to `set_zoom_points`."""

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
        """`value_format` is a format specification; `y_range` is what `Viewport` calls `least`. A
        `wide_legend` has a line of its own."""
        super().__init__(parent)
        self.setObjectName("card")
        self.setAccessibleName(self.tr("Plot of {title}").format(title=display_name(title)))
        self.setMinimumHeight(MIN_HEIGHT)
        self.title = title
        self._theme = theme
        self.curves = CurveSet(value_format, unit)
        self._show_raw = True
        self._crosshair: tuple[float, str] | None = None
        self._headline_text = ""
        self._dirty = True
        self.canvas = Canvas(theme)
        self.canvas.setAccessibleName(self.accessibleName())
        self.viewport = Viewport(self.canvas, self.curves, y_range or (None, None), self)
        self.header = PlotHeader(title, wide_legend=wide_legend)
        self.header.set_theme(theme)
        self.legend, self.headline = self.header.legend, self.header.headline
        self._lay_out()
        self.canvas.focused.connect(self._show_focus)
        self.viewport.stale.connect(self.repaint_soon)
        self.canvas.stale.connect(self.repaint_soon)
        self.legend.toggled.connect(self._set_visible)

    def set_points(self, curve_name: str, points: StoredPoints) -> None:
        """Replace the points of a curve, which is made where there is none."""
        if curve_name in self.curves:
            self.curves[curve_name].clear()
        self.add_points(curve_name, points)

    def add_points(self, curve_name: str, points: StoredPoints) -> None:
        """Append points to a curve, which is made where there is none; where they are rough, a zoom
        asks for finer ones."""
        if curve_name not in self.curves:
            self.set_curve(curve_name)
        self.curves[curve_name].extend(points)
        if len(points.step):
            self._pages.setCurrentWidget(self.canvas)
        self._dirty = True

    def set_zoom_points(self, curve_name: str, points: StoredPoints) -> None:
        """Take finer points of a part of a curve; where nothing is rough there are no more."""
        if curve_name in self.curves:
            self.curves[curve_name].set_zoom_points(points)
            self._dirty = True

    def remove_curve(self, name: str) -> None:
        """Drop a curve; the others stay in sight as they are."""
        self.canvas.remove_curve(self.curves.remove(name))
        self.legend.remove(name)
        self._dirty = True

    def clear(self) -> None:
        """Drop every curve."""
        for curve in self.curves.curves():
            self.canvas.remove_curve(curve)
        self.curves.clear()
        self.legend.clear()
        self._headline_text = ""
        self.headline.clear()
        self.set_crosshair(None)
        self._pages.setCurrentIndex(0)
        self._dirty = True

    def set_curve(
        self,
        name: str,
        *,
        colour_index: int | None = None,
        label: str | None = None,
        smooth: bool | None = None,
        dashed: bool | None = None,
        marks_gaps: bool | None = None,
        best_sign: int | None = None,
        order: tuple[int, int] | None = None,
    ) -> None:
        """Say how a curve looks, making it if needed; None leaves that as it is. One that is not
        `smooth` is drawn as it is, wherever the smoothing slider stands. What `marks_gaps` and
        `best_sign` mean stands in `Curve`. Curves stand in their `order`; those without come first,
        as they came."""
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
        if dashed is not None:
            curve.dashed = dashed
        self._apply_style(name)
        if order is not None:
            curve.order = order
            self.curves.sort()
            self.legend.arrange(list(self.curves))

    def tab_stops(self) -> list[QWidget]:
        """Everything in it that Tab goes through, in that order."""
        return [*self.legend.chips(), self.header.more, self.canvas]

    def set_smoothing(self, smoothing: float) -> None:
        """Weight of the past in the smoothed lines, 0 (none) to 0.999."""
        self.curves.set_smoothing(smoothing)
        self._dirty = True

    def set_show_raw(self, show: bool) -> None:
        """Show or hide the faint values behind smoothed lines."""
        self._show_raw = show
        self._dirty = True

    def set_log_y(self, log: bool) -> None:
        """Logarithmic values, where what is not above 0 is a gap, or linear ones."""
        if log != self.canvas.log_y:
            self.canvas.set_log_y(log)
            self.viewport.fit()

    def set_x_scale(self, scale: XScale) -> None:
        """Count something else along the horizontal axis, or the same in another way."""
        before = self.curves.scale
        if scale != before:
            self.curves.set_x_scale(scale)
            self.canvas.set_x_scale(scale)
            self._dirty = True
        if scale.kind is not before.kind:
            self.viewport.fit()

    def set_curve_x_scale(self, name: str, scale: XScale) -> None:
        """The same for one curve alone, where every curve is of another run."""
        self.curves[name].set_x_scale(scale)
        self._dirty = True

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of `theme`."""
        self._theme = theme
        self.canvas.set_theme(theme)
        self.header.set_theme(theme)
        for name in self.curves:
            self._apply_style(name)

    def set_headline(self, text: str) -> None:
        """Say `text` at the upper right; empty: the first curve's newest value."""
        self._headline_text = text
        self._dirty = True

    def set_crosshair(self, x: float | None, marked: str = "") -> None:
        """Show what the curves have at the place `x` and what is `marked` there, or nothing."""
        self._crosshair = None if x is None else (x, marked)
        if x is None:
            self.canvas.crosshair.hide()
        else:
            self.canvas.crosshair.show(x, *self.readings(x), marked)

    def readings(self, x: float) -> tuple[str, list[Reading]]:
        """What the place `x` is called, and what the curves that are seen have there."""
        return self.curves.readings(x, self._theme)

    @property
    def is_stale(self) -> bool:
        """Whether something has changed that can be seen."""
        return self._dirty and not self.visibleRegion().isEmpty()

    def refresh(self) -> bool:
        """Paint what has changed, if anything has and it can be seen; whether it did."""
        if not self.is_stale:
            return False
        self.viewport.update_view()
        for name in self.curves:
            missing = self.canvas.draw(self.curves[name], show_raw=self._show_raw)
            if missing:
                self.zoom_points_wanted.emit(name, *missing)
        self.canvas.draw_gaps(self.curves.curves())
        self.canvas.draw_best_markers(self.curves.best_markers(self._theme))
        self.headline.setText(self._headline_text or self.curves.newest())
        if self._crosshair is not None:
            self.set_crosshair(*self._crosshair)
        self._dirty = not self.curves.is_smoothed
        return True

    def repaint_soon(self) -> None:
        """Let the next `refresh` paint."""
        self._dirty = True

    def event(self, event: QEvent) -> bool:
        """Fit the pens to the screen that the window has been moved to."""
        if event.type() is QEvent.Type.DevicePixelRatioChange:
            for name in self.curves:
                self._apply_style(name)
        return super().event(event)

    def _apply_style(self, name: str) -> None:
        curve = self.curves[name]
        curve.set_style(self._theme, self.devicePixelRatioF())
        colour = self._theme.curve(curve.colour_index)
        self.legend.set_curve(name, curve.label, colour, curve.dash)
        self._dirty = True

    def _set_visible(self, name: str, visible: bool) -> None:
        self.curves[name].visible = visible
        self._dirty = True

    def _show_focus(self, focused: bool) -> None:
        self.setProperty("focused", focused)
        self.style().polish(self)

    def _lay_out(self) -> None:
        empty = QLabel(self.tr("No points yet"), alignment=Qt.AlignmentFlag.AlignCenter)
        empty.setObjectName("mut")
        self._pages = QStackedWidget()
        self._pages.addWidget(empty)
        self._pages.addWidget(self.canvas)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 6, 6, 4)
        layout.setSpacing(2)
        layout.addWidget(self.header)
        layout.addWidget(self._pages, 1)
