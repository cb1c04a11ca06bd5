"""Fetches finer points of a part of a curve from the watched run's store, in the background."""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from engine.runs.store_reader import RunReader, StoredPoints
from engine.system import paths
from gui.bridge.background import Background

MOST = 64_000
"""Points read at once. The next coarser level has a sixteenth of them, which has to be enough for
two a pixel in a window that shows half of them."""


class _Wish(NamedTuple):
    run_id: str
    series: str
    first_step: float
    last_step: float


class ZoomReader(QObject):
    """Answers `request` with `finer`; of the wishes for one series only the newest matters."""

    finer = Signal(str, object)
    """Series, and its StoredPoints there; where nothing is rough, every point is among them."""

    trouble = Signal(str)
    """A sentence: the store cannot be read."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self.watch(None)

    def watch(self, run_id: str | None) -> None:
        """Read from the store of `run_id`; what was asked of another run is not answered."""
        self._run_id = run_id
        self._reading: dict[str, _Wish] = {}
        self._waiting: dict[str, _Wish] = {}

    def request(self, series: str, first_step: float, last_step: float) -> None:
        """Fetch the points between two steps."""
        if self._run_id is None:
            return
        wish = _Wish(self._run_id, series, first_step, last_step)
        if series in self._reading:
            self._waiting[series] = wish
        else:
            self._read(wish)

    def _read(self, wish: _Wish) -> None:
        self._reading[wish.series] = wish
        self._background.run(
            partial(_window, wish), partial(self._found, wish), partial(self._failed, wish)
        )

    def _found(self, wish: _Wish, points: StoredPoints) -> None:
        if self._go_on(wish) and len(points.step):
            self.finer.emit(wish.series, points)

    def _failed(self, wish: _Wish, error: Exception) -> None:
        if not isinstance(error, sqlite3.Error):
            raise error
        if self._go_on(wish):
            text = self.tr("Finer points of {series} in run {run} cannot be read: {error}.")
            self.trouble.emit(text.format(series=wish.series, run=wish.run_id, error=error))

    def _go_on(self, wish: _Wish) -> bool:
        """Read what was wished for meanwhile; whether `wish` still matters."""
        if self._reading.get(wish.series) is not wish:
            return False
        del self._reading[wish.series]
        newer = self._waiting.pop(wish.series, None)
        if newer is not None:
            self._read(newer)
        return True


def _window(wish: _Wish) -> StoredPoints:
    with RunReader(paths.run_folder(wish.run_id)) as reader:
        return reader.window(wish.series, wish.first_step, wish.last_step, MOST)
