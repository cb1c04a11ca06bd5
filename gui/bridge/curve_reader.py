"""Follows the curves of one run for the comparison."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

from engine.runs.best_metrics import BestFigure, best_figures
from engine.runs.store_follower import CurveUpdate, StoreFollower
from engine.runs.store_reader import StoredEvent
from engine.spec.metric_direction import NO_OVERRIDES
from engine.system import paths
from gui.style.translation import translate


class CurveReader:
    """Reads new events of a run, and new points of the series that can be compared."""

    def __init__(self, run_id: str, add_events: Callable[[list[StoredEvent]], None]) -> None:
        """`add_events` gets the new events of each `poll`."""
        self.best: dict[str, BestFigure] = {}
        """The best value of each validation metric, by its name."""

        self.metric_directions: Mapping[str, str] = NO_OVERRIDES
        """`min` or `max` by metric, where the recipe overrides the general rule."""

        self.trouble = ""
        """Why the run cannot be read, as a sentence; empty while there is no problem."""

        self._run_id = run_id
        self._add_events = add_events
        self._follower = StoreFollower(paths.run_folder(run_id))

    def poll(self) -> list[CurveUpdate]:
        """Return the points that are new since the last call."""
        try:
            return [] if self.trouble or not self._follower.open() else self._read()
        except sqlite3.Error as error:
            self.close()
            text = translate("CurveReader", "The curves of run {run} cannot be read: {error}.")
            self.trouble = text.format(run=self._run_id, error=error)
            return []

    def close(self) -> None:
        """Close the store."""
        self._follower.close()

    def _read(self) -> list[CurveUpdate]:
        if events := self._follower.new_events():
            self._add_events(events)
        found = list(self._follower.new_curves(is_compared, to_the_end=True))
        if any(update.series.startswith("validation/") for update in found):
            assert self._follower.reader is not None
            self.metric_directions = self._follower.reader.status().metric_directions
            self.best = best_figures(self._follower.reader)
        return found


def is_compared(series: str) -> bool:
    """Whether the comparison shows `series`: it does not show curves of devices or ranks."""
    return series.startswith(("train/", "validation/"))
