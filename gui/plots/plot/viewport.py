"""The visible range of a plot: everything as it grows, or the range that the user chose."""

from __future__ import annotations

import math

from PySide6.QtCore import QObject, Signal

from gui.plots.data.ranges import Range
from gui.plots.plot.canvas import Canvas
from gui.plots.plot.curve_set import CurveSet


class Viewport(QObject):
    """Shows all of `curves` on `canvas` while it follows; a zoom by the user ends the following."""

    followed = Signal(bool)
    """Whether the view follows the newest points."""

    zoomed = Signal(float, float)
    """First and last visible x position, after the user has moved the view."""

    fitted = Signal()
    """The user has asked to show everything, in this plot."""

    stale = Signal()
    """The visible range must be updated."""

    def __init__(
        self,
        canvas: Canvas,
        curves: CurveSet,
        fixed_values: tuple[float | None, float | None],
        parent: QObject,
    ) -> None:
        """`fixed_values`: lowest and highest visible value while the view follows; an end that is
        None depends on the points."""
        super().__init__(parent)
        self._canvas = canvas
        self._curves = curves
        self._fixed_values = fixed_values
        self._follow = True
        self._fit_once = True
        self._fits_values = True
        """Whether the visible values follow the visible x range; not after the user has chosen
        them."""

        self._x_has_changed = False
        self._extent: Range | None = None
        self._linked_range: Range | None = None
        canvas.moved.connect(self._user_moved)
        canvas.values_moved.connect(self._user_moved_values)
        canvas.area.zoomed_x.connect(self._follow_x)
        canvas.area.sigXRangeChanged.connect(self._note_x)
        canvas.fit_requested.connect(self.request_fit)

    def set_follow(self, follow: bool) -> None:
        """Follow the newest points, or hold the view."""
        if follow != self._follow:
            self._follow = follow
            self.stale.emit()
            self.followed.emit(follow)

    def fit(self) -> None:
        """Show everything once, as soon as there are points."""
        self._fit_once = self._fits_values = True
        self.stale.emit()

    def request_fit(self) -> None:
        """Show everything, as requested by the user: linked plots do it, too."""
        self.fit()
        self.fitted.emit()

    def set_extent(self, extent: Range | None) -> None:
        """Set the x range that a fit shows, because linked plots show it; None: that of the
        curves."""
        if extent != self._extent:
            self._extent = extent
            self.stale.emit()

    def set_linked_range(self, positions: Range | None) -> None:
        """Set the x range that the user chose in a linked plot: the next fit shows it, and fits the
        values only. None: the next fit shows everything."""
        self._linked_range = positions

    @property
    def chosen_range(self) -> Range | None:
        """First and last visible x position, as the user chose them; None while the view follows,
        or while a fit is pending."""
        if self._follow or self._fit_once:
            return None
        (first, last), _ = self._canvas.area.viewRange()
        return first, last

    def update_view(self) -> None:
        """Update the visible range."""
        own = self._curves.x_range()
        if self._follow or self._fit_once:
            values = self._curves.values(log=self._canvas.log_y, fixed=self._fixed_values)
            self._canvas.show_all(self._extent or own or (0.0, 1.0), values)
            if self._linked_range is not None and not self._follow:
                self._canvas.show_x(self._linked_range)
        if own is not None:
            self._fit_once = False

    def fit_values(self) -> None:
        """Keep the curves in sight after a move along x: show the values of what has been drawn,
        unless the user has chosen them. Call this after drawing. Otherwise the view is still."""
        if self._follow or not (self._fits_values and self._x_has_changed):
            return
        found = self._canvas.values_in_sight(self._curves.curves())
        if found is not None:
            self._x_has_changed = False
            self._canvas.show_values(self._with_fixed(found))

    def _with_fixed(self, values: Range) -> Range:
        """Extend positions on the value axis to the fixed values, as a fit does."""
        low, high = self._fixed_values
        if self._canvas.log_y:
            low, high = (math.log10(end) if end and end > 0 else None for end in (low, high))
        return (
            values[0] if low is None else min(values[0], low),
            values[1] if high is None else max(values[1], high),
        )

    def _follow_x(self) -> None:
        self._fits_values = self._x_has_changed = True

    def _note_x(self) -> None:
        self._x_has_changed = True

    def _user_moved_values(self) -> None:
        self._fits_values = False
        if self._curves.x_range() is not None:
            self._fit_once = False
        self.set_follow(False)

    def _user_moved(self, first: float, last: float) -> None:
        if self._curves.x_range() is not None:
            self._fit_once = False
        self.set_follow(False)
        self.zoomed.emit(first, last)
