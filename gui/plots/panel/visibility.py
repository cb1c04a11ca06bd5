"""Which plots are seen and in what order: moved, hidden, enlarged, and shown again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMenu, QWidget

from gui.plots.data.series_style import PlotKind, spoken
from gui.plots.panel.grid_layout import Arrangement
from gui.plots.panel.layout_order import PlotLayout
from gui.plots.panel.panel_settings import Kept
from gui.plots.plot.curve_plot import CurvePlot
from gui.plots.plot.menu import PlotAction


class Placement(QObject):
    """Puts `plots`, which are given in their natural order, where the user wants them."""

    enlarged = Signal(bool)
    """Whether one plot has all the room now."""

    def __init__(self, plots: Mapping[PlotKind, CurvePlot], kept: Kept, parent: QWidget) -> None:
        """Order and hiding are `kept`; what is enlarged is forgotten."""
        super().__init__(parent)
        self._plots = plots
        self._layout = PlotLayout(kept)
        self._enlarged: PlotKind | None = None
        self.panel = Arrangement()
        """Where the plots are seen."""

        self.panel.dropped.connect(self.move)

    def kinds(self) -> list[PlotKind]:
        """All plots in their order, hidden ones too."""
        by_title = {kind.title: kind for kind in self._plots}
        return [by_title[title] for title in self._layout.arranged(by_title)]

    def refresh(self) -> None:
        """Show what is to be seen now."""
        kinds = [kind for kind in self.kinds() if not self._layout.is_hidden(kind.title)]
        if self._enlarged is not None:
            kinds = [self._enlarged]
        self.panel.show_plots({kind: self._plots[kind] for kind in kinds})

    def remove(self, kind: PlotKind, plot: CurvePlot) -> None:
        """Take a plot away for good; where it was enlarged, the others are seen again."""
        self.panel.remove(plot)
        if kind == self._enlarged:
            self.show_all()

    def do(self, kind: PlotKind, action: PlotAction) -> None:
        """Do what the menu of a plot says about its place."""
        match action:
            case PlotAction.ENLARGE:
                self._enlarge(kind if self._enlarged is None else None)
            case PlotAction.HIDE:
                self.hide(kind.title)
            case PlotAction.EARLIER:
                self._swap(kind, -1)
            case PlotAction.LATER:
                self._swap(kind, 1)

    def move(self, title: str, onto: str) -> None:
        """Put a plot where another one stands."""
        self._layout.move(title, onto, [kind.title for kind in self.kinds()])
        self.refresh()

    def hide(self, title: str, hidden: bool = True) -> None:
        """Hide a plot or show it again."""
        self._layout.hide(title, hidden=hidden)
        self.refresh()

    @property
    def is_enlarged(self) -> bool:
        """Whether one plot has all the room."""
        return self._enlarged is not None

    def show_all(self) -> None:
        """Show the others beside the enlarged one again."""
        self._enlarge(None)

    def reset(self) -> None:
        """Show every plot, in the natural order."""
        self._layout.reset()
        self.show_all()

    def fill(self, menu: QMenu) -> None:
        """List the plots in `menu`, checked where they are shown."""
        menu.clear()
        for kind in self.kinds():
            entry = menu.addAction(spoken(kind.title))
            entry.setCheckable(True)
            entry.setChecked(not self._layout.is_hidden(kind.title))
            entry.toggled.connect(self._hider(kind.title))
        menu.addSeparator()
        menu.addAction(self.tr("Show all in their first order"), self.reset)

    def _hider(self, title: str) -> Callable[[bool], None]:
        return lambda shown: self.hide(title, not shown)

    def _swap(self, kind: PlotKind, way: int) -> None:
        group = [
            each.title
            for each in self.kinds()
            if each.is_detail == kind.is_detail and not self._layout.is_hidden(each.title)
        ]
        there = group.index(kind.title) + way
        if 0 <= there < len(group):
            self.move(kind.title, group[there])

    def _enlarge(self, kind: PlotKind | None) -> None:
        self._enlarged = kind
        for plot in self._plots.values():
            plot.header.menu.set_enlarged(kind is not None)
        self.refresh()
        self.enlarged.emit(kind is not None)
