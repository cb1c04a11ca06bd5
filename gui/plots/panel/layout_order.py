"""The order of the plots and which of them are hidden, as the settings keep it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gui.plots.panel.panel_settings import Kept

_ORDER, _HIDDEN = "order", "hidden"


class PlotLayout:
    """Knows plots by their titles: it holds for every run, whatever plots that has."""

    def __init__(self, kept: Kept) -> None:
        """What was `kept` holds from the beginning."""
        self._kept = kept
        self._order = self._read(_ORDER)
        self._hidden = set(self._read(_HIDDEN))

    def arranged(self, titles: Iterable[str]) -> list[str]:
        """`titles`, given in their natural order, in the order wanted. One that was never moved
        stands behind the one that it naturally follows."""
        natural = list(titles)
        found = [title for title in self._order if title in natural]
        for number, title in enumerate(natural):
            if title not in found:
                before = natural[number - 1] if number else None
                found.insert(found.index(before) + 1 if before else 0, title)
        return found

    def is_hidden(self, title: str) -> bool:
        """Whether the plot is not to be seen."""
        return title in self._hidden

    def hide(self, title: str, *, hidden: bool) -> None:
        """Hide a plot or show it again."""
        (self._hidden.add if hidden else self._hidden.discard)(title)
        self._write()

    def move(self, title: str, onto: str, titles: Sequence[str]) -> None:
        """Put a plot where another one of `titles`, the present order, stands; those between move
        up."""
        place = titles.index(onto)
        order = [each for each in titles if each != title]
        order.insert(place, title)
        # Plots that this run does not have keep their place behind the one before them.
        for number, each in enumerate(self._order):
            if each not in order:
                before = self._order[number - 1] if number else None
                order.insert(order.index(before) + 1 if before in order else 0, each)
        self._order = order
        self._write()

    def reset(self) -> None:
        """All plots in their natural order."""
        self._order, self._hidden = [], set()
        self._write()

    def _read(self, key: str) -> list[str]:
        found = self._kept.value(key)
        if isinstance(found, str):  # a list of one comes back as its only word
            return [found] if found else []
        return [str(each) for each in found] if isinstance(found, list) else []

    def _write(self) -> None:
        self._kept.keep(_ORDER, self._order)
        self._kept.keep(_HIDDEN, sorted(self._hidden))
