"""Follows the curves of one run in the comparison, live or over."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import NamedTuple

from engine.runs.best_metrics import BestFigure, best_figures
from engine.runs.store import FILE_NAME
from engine.runs.store_reader import RunReader, StoredPoints
from engine.system import paths
from gui.plots.data.run_timeline import RunTimeline
from gui.style.translation import translate

LONGEST_ADDITION = 8000
"""More new points than this are read as a curve of blocks instead, point by point no more."""


class News(NamedTuple):
    """New points of a curve."""

    series: str
    points: StoredPoints
    replaces: bool
    """Whether they stand for all that there was."""

    metric_directions: Mapping[str, str]
    """`min` or `max` by metric, where the run overrides the rule."""


class CurveTail:
    """Reads what is new in the store of a run, of the series that can be compared."""

    def __init__(self, run_id: str) -> None:
        self.best: dict[str, BestFigure] = {}
        """By validation metric."""

        self.timeline = RunTimeline()
        """When the run trained: what its horizontal axis needs."""

        self.trouble = ""
        """A sentence: why the run cannot be read any more."""

        self._run_id = run_id
        self._reader: RunReader | None = None
        self._generation = -1
        self._counts: dict[str, int] = {}
        self._seq = 0

    def poll(self) -> list[News]:
        """What came since the last time."""
        folder = paths.run_folder(self._run_id)
        if self.trouble or (self._reader is None and not (folder / FILE_NAME).exists()):
            return []
        try:
            if self._reader is None:
                self._reader = RunReader(folder)
            return self._read(self._reader)
        except sqlite3.Error as error:
            self._give_up(error)
            return []

    def close(self) -> None:
        """Let go of the file."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _give_up(self, error: sqlite3.Error) -> None:
        self.close()
        text = translate("CurveTail", "The curves of run {run} cannot be read: {error}.")
        self.trouble = text.format(run=self._run_id, error=error)

    def _read(self, reader: RunReader) -> list[News]:
        generation = reader.generation()
        rewound = generation != self._generation
        self._generation = generation
        events = reader.events_after(self._seq)
        if events:
            self._seq = events[-1].seq
            self.timeline.take(events)
        found = []
        for series, count in reader.counts().items():
            known = self._counts.get(series, 0)
            if not is_compared(series) or (count == known and not rewound):
                continue
            whole = rewound or not known or count - known > LONGEST_ADDITION
            points = reader.history(series) if whole else reader.points_after(series, known)
            self._counts[series] = points.count
            found.append(News(series, points, whole, reader.status().metric_directions))
        if any(news.series.startswith("validation/") for news in found):
            self.best = best_figures(reader)
        return found


def is_compared(series: str) -> bool:
    """Whether a series says something about training, and not about devices or single ranks."""
    return series.startswith(("train/", "validation/"))
