"""Reads the points of the visible part of a curve from the store after a zoom."""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from engine.runs.store.stored_points import StoredPoints
from gui.bridge.background import Background
from gui.bridge.machines.machines import UNREADABLE, place_of

_SAME = 0.1
"""Of another machine, a range is read again when an end has moved by this share of its width: a
view that follows a training moves with every point."""


class _ZoomRequest(NamedTuple):
    run_id: str
    series: str
    first_step: float
    last_step: float

    def is_near(self, other: _ZoomRequest) -> bool:
        """Whether both ask for nearly the same range."""
        width = _SAME * (other.last_step - other.first_step)
        moved = (self.first_step - other.first_step, self.last_step - other.last_step)
        return all(abs(each) < width for each in moved)


class ZoomReader(QObject):
    """Emits `zoom_points` for each `request`; a newer request replaces a waiting one."""

    zoom_points = Signal(str, object)
    """Series, and its StoredPoints between the two steps: all points, or blocks of them."""

    trouble = Signal(str)
    """A sentence: the store cannot be read."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self.watch(None)

    def watch(self, run_id: str | None) -> None:
        """Read from the store of `run_id`; drop the requests for another run."""
        self._run_id = run_id
        self._reading: dict[str, _ZoomRequest] = {}
        self._waiting: dict[str, _ZoomRequest] = {}
        self._asked: dict[str, _ZoomRequest] = {}
        """The last request for each series of another machine."""

    def request(self, series: str, first_step: float, last_step: float) -> None:
        """Read the points between two steps."""
        if self._run_id is None:
            return
        request = _ZoomRequest(self._run_id, series, first_step, last_step)
        if place_of(self._run_id)[0]:
            before = self._asked.get(series)
            if before is not None and request.is_near(before):
                return
            self._asked[series] = request
        if series in self._reading:
            self._waiting[series] = request
        else:
            self._read(request)

    def _read(self, request: _ZoomRequest) -> None:
        self._reading[request.series] = request
        self._background.run(
            partial(self._window, request),
            partial(self._report, request),
            partial(self._failed, request),
        )

    def _report(self, request: _ZoomRequest, points: StoredPoints) -> None:
        if self._finish(request) and len(points.step):
            self.zoom_points.emit(request.series, points)

    def _failed(self, request: _ZoomRequest, error: Exception) -> None:
        if not isinstance(error, (sqlite3.Error, *UNREADABLE, ValueError)):
            raise error
        if self._finish(request):
            text = (
                f"Finer points of {request.series} in run {request.run_id} cannot be read: {error}."
            )
            self.trouble.emit(text)

    def _finish(self, request: _ZoomRequest) -> bool:
        """Start the next waiting request for the series; return whether `request` is still
        valid."""
        if self._reading.get(request.series) is not request:
            return False
        del self._reading[request.series]
        newer = self._waiting.pop(request.series, None)
        if newer is not None:
            self._read(newer)
        return True

    def _window(self, request: _ZoomRequest) -> StoredPoints:
        engine, run = self._background.machines.engine_of(request.run_id)
        first, last = request.first_step, request.last_step
        return engine.read_window(run, request.series, first, last, engine.most_points)
