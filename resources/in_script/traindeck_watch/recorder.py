"""Keeps what hooks capture, and sends it in bulk from a thread.

A hook only appends. Values may be tensors on a device: the thread fetches them together, so a step
never waits for its figures.
"""

from __future__ import annotations

import collections
import math
import threading
import time
from collections.abc import Callable
from typing import Any

from traindeck_watch.link import Frame, Link

LARGEST_PENDING = 500_000
"""Entries that wait at most. Only a thread that cannot keep up loses some, and says so."""

POINTS_OF_A_FRAME = 20_000
FIRST_GAP_SECONDS = 30.0
"""Time between the first two notices of points that were left out; then it doubles."""

Value = Any
Fetch = Callable[[list[Any]], "list[float | None]"]
Point = tuple[str, int, float, Value]
StepFigures = tuple[str, int, float, Value, str, Value]
"""A step's loss and learning rate, each None if there is none, and the time of `monotonic`."""

Later = Callable[[], "Frame | None"]
"""Makes a frame in the thread, such as one with an encoded image."""


class Summed(list[Value]):
    """Parts whose sum is the value of a point, such as the losses of an accumulated step."""


def as_number(value: Value) -> float | None:
    """Return a number, or None for what is none."""
    if isinstance(value, str):
        return None
    try:
        return float(value)
    except Exception:
        return None


class Recorder:
    """Points and frames in the order in which they came."""

    def __init__(self, link: Link, notice: Callable[[str], None]) -> None:
        self._link = link
        self._notice = notice
        self._pending: collections.deque[Point | StepFigures | Frame | Later] = collections.deque()
        self._flushing = threading.Lock()
        self._left_out = 0
        """Entries that found no room, and points and frames that could not be sent."""

        self._tell_at, self._tell_seconds = 0.0, FIRST_GAP_SECONDS

        self.fetch: Fetch | None = None
        """Turns tensors into numbers, in bulk; set when a framework is loaded."""

    def record(self, series: str, step: int, value: Value) -> None:
        """Keep a point. Costs about a microsecond."""
        self._keep((series, step, time.time(), value))

    def record_step(self, figures: StepFigures) -> None:
        """Keep both figures of a step at once."""
        self._keep(figures)

    def put(self, frame: Frame | Later) -> None:
        """Keep a frame, to be sent after the points that came before it."""
        self._keep(frame)

    def _keep(self, entry: Point | StepFigures | Frame | Later) -> None:
        if len(self._pending) < LARGEST_PENDING:
            self._pending.append(entry)
        else:
            self._left_out += 1

    def tell_left_out(self) -> None:
        """Say how many are missing since it was said last."""
        if count := self._left_out:
            self._left_out = 0
            self._tell_at = time.monotonic() + self._tell_seconds
            self._tell_seconds *= 2
            self._notice(
                f"{count} figures up to here were left out: they came faster than they could be "
                "sent, or were too large."
            )

    @property
    def has_pending(self) -> bool:
        """Whether something waits."""
        return bool(self._pending)

    def flush(self, progress: Frame) -> None:
        """Send everything. `progress`: the fields of a `points` frame beside the points."""
        with self._flushing:
            points: list[Point] = []
            sent = False
            since = time.time() - time.monotonic()
            for _ in range(len(self._pending)):
                entry = self._pending.popleft()
                if len(points) >= POINTS_OF_A_FRAME:
                    self._send_points(points, progress)
                    points, sent = [], True
                if isinstance(entry, tuple):
                    if len(entry) == 4:
                        points.append(entry)
                        continue
                    series, step, at, loss, rate_series, rate = entry
                    if loss is not None:
                        points.append((series, step, since + at, loss))
                    if rate is not None:
                        points.append((rate_series, step, since + at, rate))
                    continue
                if points:
                    self._send_points(points, progress)
                    points, sent = [], True
                frame = entry if isinstance(entry, dict) else entry()
                if frame is not None and not self._link.send(frame):
                    self._left_out += 1
            if points or (progress and not sent):
                self._send_points(points, progress)
        if time.monotonic() >= self._tell_at:
            self.tell_left_out()

    def _send_points(self, points: list[Point], progress: Frame) -> None:
        columns: dict[str, tuple[list[int], list[float], list[float]]] = {}
        for (series, step, when, _), number in zip(points, self._numbers(points)):
            if number is None:
                continue
            column = columns.get(series)
            if column is None:
                column = columns[series] = ([], [], [])
            column[0].append(step)
            column[1].append(number)
            column[2].append(when)
        rows = [[series, *column] for series, column in columns.items()]
        if rows or progress:
            sent = self._link.send({"kind": "points", "points": rows, **progress})
            self._left_out += 0 if sent else len(points)

    def _numbers(self, points: list[Point]) -> list[float | None]:
        numbers: list[float | None] = []
        parts: list[Value] = []
        places: list[tuple[int, int]] = []
        for place, (_, _, _, value) in enumerate(points):
            if type(value) is float:
                numbers.append(value)
                continue
            numbers.append(None)
            mine = value if isinstance(value, Summed) else [value]
            parts.extend(mine)
            places.append((place, len(mine)))
        fetched = self._fetched(parts)
        start = 0
        for place, count in places:
            found = fetched[start : start + count]
            start += count
            known = [number for number in found if number is not None]
            numbers[place] = math.fsum(known) if len(known) == count > 1 else None
            if count == 1:
                numbers[place] = found[0]
        return numbers

    def _fetched(self, parts: list[Value]) -> list[float | None]:
        if not parts:
            return []
        if self.fetch is not None:
            try:
                return self.fetch(parts)
            except Exception as error:
                self._notice(f"Some figures could not be read from their device: {error}")
                return [None] * len(parts)
        return [as_number(part) for part in parts]

    def forget_after_fork(self) -> None:
        """In a forked child: what waits belongs to the parent."""
        self._pending = collections.deque()
        self._flushing = threading.Lock()
