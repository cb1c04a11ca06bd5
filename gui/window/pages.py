"""The table of the pages: strip, menu, column and the way of the focus follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

PageName = Literal["run", "runs", "race", "sweeps", "machines", "step"]
"""Stored in `window.ini`, and so never renamed."""


@dataclass(frozen=True)
class Page:
    """What the window shows of a page before it is opened."""

    title: str
    icon: str
    about: str
    """For the tip of its button."""

    entry: str
    """In the menu Go."""

    within: PageName | None = None
    """The page from which this one is reached: it has no button of its own in the strip."""

    folds: bool = False
    """Whether the rail stands in the place of the left column at first."""


PAGES: Mapping[PageName, Page] = {
    "run": Page("Run", "chart-line", "The plots and the log of one run", "Page of the run"),
    "runs": Page("Runs", "list", "All runs, side by side", "Page of all runs", folds=True),
    "race": Page("Race", "stopwatch", "Strategies, side by side, before a run", "Page of the race"),
    "sweeps": Page(
        "Sweeps",
        "squares-four",
        "Many runs that differ in settings",
        "Page of the sweeps",
        folds=True,
    ),
    "machines": Page("Machines", "hard-drives", "This machine and others", "Page of the machines"),
    "step": Page(
        "Step", "stopwatch", "What made a step of the run", "Page of a step", "run", folds=True
    ),
}
"""In the order of the strip. The first page has its own parts; each other one has a place in
`WindowParts.pages`, which its controller fills."""


def keys_of(page: PageName) -> str:
    """Return the shortcut of `page`."""
    return f"Ctrl+{list(PAGES).index(page) + 1}"


def tip_of(page: PageName) -> str:
    """Return what is in `page`, with its shortcut."""
    return f"{PAGES[page].about} ({keys_of(page)})"
