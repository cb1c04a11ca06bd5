"""Runs and events in news, between two versions of Traindeck that may differ."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import msgspec

from engine.interface.encoding import known_spec, without_defaults
from engine.messages.events import Event, Notice
from engine.remote.requests import Packed, Spec
from engine.runs.best_metrics import BestFigure
from engine.runs.run_info import Origin, RunInfo
from engine.runs.run_notes import RunNotes
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store.store_reader import StoredEvent


class RunRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A `RunInfo`."""

    id: str
    folder: str
    spec: Spec
    status: RunStatus
    state: RunState
    reason: str = ""
    notes: RunNotes = RunNotes()
    best: dict[str, BestFigure] = {}
    has_orphans: bool = False
    is_recorded: bool = True
    origin: Origin = Origin()


def row_of(info: RunInfo) -> RunRow:
    """Return `info` for a message."""
    return RunRow(
        id=info.id,
        folder=str(info.folder),
        spec=without_defaults(info.spec),
        status=info.status,
        state=info.state,
        reason=info.reason,
        notes=info.notes,
        best=dict(info.best),
        has_orphans=info.has_orphans,
        is_recorded=info.is_recorded,
        origin=info.origin,
    )


def digest_of(row: Packed) -> int:
    """Return the digest of a run in a message; see `WatchRuns.known`."""
    return zlib.crc32(row)


def run_info(row: Packed) -> RunInfo:
    """Return the run in a message; its folder is a path of the other machine.

    Raises ValueError if only a newer version can read it.
    """
    found = _decode_row(row)
    return RunInfo(
        id=found.id,
        folder=Path(found.folder),
        spec=known_spec(found.spec),
        status=found.status,
        state=found.state,
        reason=found.reason,
        notes=found.notes,
        best=found.best,
        has_orphans=found.has_orphans,
        is_recorded=found.is_recorded,
        origin=found.origin,
    )


def stored_event(seq: int, time: float, event: Packed) -> StoredEvent:
    """Return the event in a message; of a kind that only a newer version knows, a notice."""
    try:
        return StoredEvent(seq, time, _decode_event(event))
    except (msgspec.DecodeError, RecursionError):
        text = "An event that only a newer version of Traindeck reads."
        return StoredEvent(seq, time, Notice(text))


_decode_row = msgspec.msgpack.Decoder(RunRow).decode
_decode_event: Any = msgspec.msgpack.Decoder(Event).decode
