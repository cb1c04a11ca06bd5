"""The order of the plots, and which of them are hidden or enlarged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMenu, QWidget

from gui.plots.data.series_style import PlotKind
from gui.plots.panel.grid_layout import GridLayout
from gui.plots.plot.curve_plot import CurvePlot
from gui.plots.plot.menu import PlotAction
from gui.widgets.panel_settings import PanelSettings

_ORDER, _HIDDEN = "order", "hidden"


class PlotOrder:
    """The user's order of the plots, and the hidden plots, by title; the same for all runs."""

    def __init__(self, settings: PanelSettings) -> None:
        """Begin with what `settings` hold."""
        self._settings = settings
        self._order = self._read(_ORDER)
        self._hidden = set(self._read(_HIDDEN))

    def sorted_titles(self, titles: Iterable[str]) -> list[str]:
        """Return `titles` in the user's order. They are given in their natural order: a plot that
        the user never moved stays behind its natural predecessor."""
        natural = list(titles)
        found = [title for title in self._order if title in natural]
        for number, title in enumerate(natural):
            if title not in found:
                before = natural[number - 1] if number else None
                found.insert(found.index(before) + 1 if before else 0, title)
        return found

    def is_hidden(self, title: str) -> bool:
        """Whether the user has hidden the plot."""
        return title in self._hidden

    def hide(self, title: str, *, hidden: bool) -> None:
        """Hide a plot or show it again."""
        (self._hidden.add if hidden else self._hidden.discard)(title)
        self._write()

    def move(self, title: str, onto: str, titles: Sequence[str]) -> None:
        """Put the plot `title` in the position of `onto`. `titles` is the present order of the
        plots; those between the two positions move up."""
        position = titles.index(onto)
        order = [each for each in titles if each != title]
        order.insert(position, title)
        # Plots that this run does not have stay behind the plot that they followed.
        for number, each in enumerate(self._order):
            if each not in order:
                before = self._order[number - 1] if number else None
                order.insert(order.index(before) + 1 if before in order else 0, each)
        self._order = order
        self._write()

    def reset(self) -> None:
        """Forget the user's order, and hide nothing."""
        self._order, self._hidden = [], set()
        self._write()

    def _read(self, key: str) -> list[str]:
        found = self._settings.value(key)
        if isinstance(found, str):  # an INI file returns a list of one entry as a string
            return [found] if found else []
        return [str(each) for each in found] if isinstance(found, list) else []

    def _write(self) -> None:
        self._settings.set_value(_ORDER, self._order)
        self._settings.set_value(_HIDDEN, sorted(self._hidden))


class PlotVisibility(QObject):
    """Shows `plots`, which are given in their natural order, as the user has arranged them."""

    enlarged = Signal(bool)
    """Whether one plot now fills the panel."""

    def __init__(
        self,
        plots: Mapping[PlotKind, CurvePlot],
        settings: PanelSettings,
        has_use: Callable[[PlotKind], bool],
        parent: QWidget,
    ) -> None:
        """`settings` keep order and hidden plots; which plot is enlarged is not stored. A plot that
        has no use now is left out."""
        super().__init__(parent)
        self._plots = plots
        self._order = PlotOrder(settings)
        self._has_use = has_use
        self._enlarged: PlotKind | None = None
        self._is_held = self._is_due = False
        self.grid = GridLayout()
        self.grid.dropped.connect(self.move)

    def kinds(self) -> list[PlotKind]:
        """All plots in the user's order, hidden ones too."""
        by_title = {kind.title: kind for kind in self._plots}
        return [by_title[title] for title in self._order.sorted_titles(by_title)]

    @contextmanager
    def refreshed_once(self) -> Iterator[None]:
        """Let what is asked to be refreshed in the body be so once, at its end: it takes a look at
        all plots."""
        self._is_held, self._is_due = True, False
        try:
            yield
        finally:
            self._is_held = False
            if self._is_due:
                self.refresh()

    def refresh(self) -> None:
        """Show the plots that are not hidden, or the enlarged one alone."""
        if self._is_held:
            self._is_due = True
            return
        kinds = [kind for kind in self.kinds() if self._is_shown(kind)]
        if self._enlarged is not None:
            kinds = [self._enlarged]
        self.grid.show_plots({kind: self._plots[kind] for kind in kinds})

    def remove(self, kind: PlotKind, plot: CurvePlot) -> None:
        """Delete a plot; if it was enlarged, show the others again."""
        self.grid.remove(plot)
        if kind == self._enlarged:
            self.show_all()

    def do(self, kind: PlotKind, action: PlotAction) -> None:
        """Carry out an entry of a plot's menu that moves, hides or enlarges the plot."""
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
        """Put the plot `title` in the position of the plot `onto`."""
        self._order.move(title, onto, [kind.title for kind in self.kinds()])
        self.refresh()

    def hide(self, title: str, hidden: bool = True) -> None:
        """Hide a plot or show it again."""
        self._order.hide(title, hidden=hidden)
        self.refresh()

    @property
    def is_enlarged(self) -> bool:
        """Whether one plot fills the panel."""
        return self._enlarged is not None

    def show_all(self) -> None:
        """Show the other plots beside the enlarged one again."""
        self._enlarge(None)

    def reset(self) -> None:
        """Show every plot, in the natural order."""
        self._order.reset()
        self.show_all()

    def fill(self, menu: QMenu) -> None:
        """List the plots in `menu`, checked where they are shown."""
        menu.clear()
        for kind in filter(self._has_use, self.kinds()):
            entry = menu.addAction(kind.title)
            entry.setCheckable(True)
            entry.setChecked(not self._order.is_hidden(kind.title))
            entry.toggled.connect(self._hider(kind.title))
        menu.addSeparator()
        menu.addAction("Reset plots", self.reset)

    def _is_shown(self, kind: PlotKind) -> bool:
        return self._has_use(kind) and not self._order.is_hidden(kind.title)

    def _hider(self, title: str) -> Callable[[bool], None]:
        return lambda shown: self.hide(title, not shown)

    def _swap(self, kind: PlotKind, direction: int) -> None:
        shown = [each.title for each in self.kinds() if self._is_shown(each)]
        target = shown.index(kind.title) + direction
        if 0 <= target < len(shown):
            self.move(kind.title, shown[target])

    def _enlarge(self, kind: PlotKind | None) -> None:
        self._enlarged = kind
        for plot in self._plots.values():
            plot.header.menu.set_enlarged(kind is not None)
        self.refresh()
        self.enlarged.emit(kind is not None)
