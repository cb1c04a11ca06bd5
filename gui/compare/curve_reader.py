"""Follows the curves of one run for the comparison, live or finished."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from engine.runs.best_metrics import BestFigure, best_figures
from engine.runs.store_follower import CurveUpdate, StoreFollower
from engine.spec.metric_direction import NO_OVERRIDES
from engine.system import paths
from gui.plots.data.run_timeline import RunTimeline
from gui.style.translation import translate


class CurveReader:
    """Reads what is new in the store of a run, of the series that can be compared."""

    def __init__(self, run_id: str) -> None:
        self.best: dict[str, BestFigure] = {}
        """By validation metric."""

        self.metric_directions: Mapping[str, str] = NO_OVERRIDES
        """The run's `min` or `max` by metric, where it overrides the general rule."""

        self.timeline = RunTimeline()
        """For the horizontal axis of the run."""

        self.trouble = ""
        """A sentence: why the run cannot be read any more; empty while it can."""

        self._run_id = run_id
        self._follower = StoreFollower(paths.run_folder(run_id))

    def poll(self) -> list[CurveUpdate]:
        """Return what is new since the last call."""
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
            self.timeline.add_events(events)
        found = list(self._follower.new_curves(is_compared, to_the_end=True))
        if any(update.series.startswith("validation/") for update in found):
            assert self._follower.reader is not None
            self.metric_directions = self._follower.reader.status().metric_directions
            self.best = best_figures(self._follower.reader)
        return found


def is_compared(series: str) -> bool:
    """Whether a series describes training, and not devices or single ranks."""
    return series.startswith(("train/", "validation/"))
