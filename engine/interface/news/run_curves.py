"""The curves of a run that are compared with others: how they are read, and how they travel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.interface.news import packed_points
from engine.interface.news.run_news import Curve, decode_event, pack_events
from engine.interface.value_encoding import encode
from engine.interface.values import Packed
from engine.runs.best_metrics import BestFigure, best_figures
from engine.runs.store.store_follower import BEGIN, CurveUpdate, StoreCursor, StoreFollower
from engine.runs.store.store_reader import StoredEvent
from engine.spec.metric_direction import NO_OVERRIDES


class RunCurves(NamedTuple):
    """What is new of the curves of a run."""

    cursor: bytes = b""
    """How far the run was read."""

    curves: Sequence[CurveUpdate] = ()
    events: Sequence[StoredEvent] = ()
    best: Mapping[str, BestFigure] | None = None
    """The best value of each validation metric, by its name; None: as before."""

    metric_directions: Mapping[str, str] = NO_OVERRIDES
    """`min` or `max` by metric, where the recipe overrides the general rule."""


class SentCurves(msgspec.Struct, frozen=True, omit_defaults=True):
    """`RunCurves` in a message."""

    cursor: Packed
    curves: list[Curve] = []
    events: list[tuple[int, float, Packed]] = []
    best: dict[str, BestFigure] | None = None
    metric_directions: dict[str, str] = {}


def read_curves(folder: Path, most: int, cursor: bytes) -> RunCurves:
    """Return what is new since `cursor`; see `Engine.read_curves`. No file stays open."""
    follower = StoreFollower(folder, _decoded(cursor))
    with closing(follower):
        if not follower.open():
            return RunCurves(cursor)
        events = follower.new_events()
        curves = list(follower.new_curves(is_compared, to_the_end=True, most=most))
        directions, best = NO_OVERRIDES, None
        if follower.reader and curves:
            directions = follower.reader.status().metric_directions
            if any(update.series.startswith("validation/") for update in curves):
                best = best_figures(follower.reader)
        return RunCurves(encode(follower.cursor), curves, events, best, directions)


def is_compared(series: str) -> bool:
    """Whether the comparison shows `series`: it does not show curves of devices or ranks."""
    return not series.startswith(("device/", "rank/"))


def pack_curves(found: RunCurves) -> SentCurves:
    """Return the curves of a run for a message."""
    return SentCurves(
        found.cursor,
        [Curve(name, packed_points.pack(points), new) for name, points, new in found.curves],
        pack_events(found.events),
        None if found.best is None else dict(found.best),
        dict(found.metric_directions),
    )


def unpack_curves(sent: SentCurves, _: str) -> RunCurves:
    """Return the curves of a run in a message. Raises ValueError."""
    return RunCurves(
        sent.cursor,
        [
            CurveUpdate(curve.series, packed_points.unpack(curve.points), curve.replaces)
            for curve in sent.curves
        ],
        [decode_event(*each) for each in sent.events],
        sent.best,
        sent.metric_directions,
    )


def _decoded(cursor: bytes) -> StoreCursor:
    """Return the cursor in a question; that of the beginning if it is none of this version."""
    try:
        return _decode_cursor(cursor) if cursor else BEGIN
    except (msgspec.DecodeError, RecursionError):
        return BEGIN


_decode_cursor = msgspec.msgpack.Decoder(StoreCursor).decode
