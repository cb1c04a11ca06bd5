"""Which part of a plot is in sight: everything as it grows, or what the user chose."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from gui.plots.data.ranges import Range
from gui.plots.plot.canvas import Canvas
from gui.plots.plot.curve_set import CurveSet


class Viewport(QObject):
    """Shows all of `curves` on `canvas` while it follows; a zoom by hand ends that."""

    followed = Signal(bool)
    """Whether the view goes on to show everything."""

    zoomed = Signal(float, float)
    """First and last place in sight, after the user has moved the view."""

    fitted = Signal()
    """The user has asked to see everything, in this plot."""

    stale = Signal()
    """The view has to be set anew."""

    def __init__(
        self,
        canvas: Canvas,
        curves: CurveSet,
        least: tuple[float | None, float | None],
        parent: QObject,
    ) -> None:
        """`least` fixes the lowest or the highest value in sight while following; None leaves an
        end to the points."""
        super().__init__(parent)
        self._canvas = canvas
        self._curves = curves
        self._least = least
        self._follow = True
        self._fit_once = True
        self._extent: Range | None = None
        self._held: Range | None = None
        canvas.moved.connect(self._moved_by_hand)
        canvas.fit_requested.connect(self.fit_by_hand)

    def set_follow(self, follow: bool) -> None:
        """Go on showing everything as points arrive, or hold the view still."""
        if follow != self._follow:
            self._follow = follow
            self.stale.emit()
            self.followed.emit(follow)

    def fit(self) -> None:
        """Show everything, once: as soon as there is something."""
        self._fit_once = True
        self.stale.emit()

    def fit_by_hand(self) -> None:
        """The same, as the user's wish: linked plots do it too."""
        self.fit()
        self.fitted.emit()

    def set_extent(self, extent: Range | None) -> None:
        """Take these places for "everything", as linked plots do; None: the curves' own."""
        if extent != self._extent:
            self._extent = extent
            self.stale.emit()

    def set_held(self, held: Range | None) -> None:
        """Let a fit that is still to come bring only the values into sight, and these places, where
        linked plots hold still; None: a fit shows everything."""
        self._held = held

    @property
    def places(self) -> Range | None:
        """First and last place in sight, where the view holds still; None while it follows, or a
        fit is still to come."""
        if self._follow or self._fit_once:
            return None
        (first, last), _ = self._canvas.area.viewRange()
        return first, last

    def update_view(self) -> None:
        """Bring into sight what is to be seen now."""
        own = self._curves.x_range()
        if self._follow or self._fit_once:
            values = self._curves.values(log=self._canvas.log_y, least=self._least)
            self._canvas.show_all(self._extent or own or (0.0, 1.0), values)
            if self._held is not None and not self._follow:
                self._canvas.show_x(self._held)
        if own is not None:
            self._fit_once = False

    def _moved_by_hand(self, first: float, last: float) -> None:
        if self._curves.x_range() is not None:
            self._fit_once = False
        self.set_follow(False)
        self.zoomed.emit(first, last)
