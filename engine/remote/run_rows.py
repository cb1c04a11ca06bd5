"""Runs and settings in messages, between two versions of Traindeck that may differ."""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import fields

from engine.messages.events import Event, Notice
from engine.planning import requests as planning
from engine.planning.requests import specs_of
from engine.remote.requests import Asked, Packed, Spec, StoredSettings
from engine.runs.best_metrics import BestFigure
from engine.runs.run_info import Origin, RunInfo
from engine.runs.run_notes import RunNotes
from engine.runs.run_state import RunState, RunStatus
from engine.runs.settings_history import SettingsHistory
from engine.runs.store.store_reader import StoredEvent
from engine.spec.run_spec import RunSpec
from engine.spec.validation import Problem


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


class UnfitSettings(ValueError):
    """Settings are no spec of this version of Traindeck; the text is a sentence."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


def plain(value: Any) -> Any:
    """Return what msgspec cannot encode by itself in a form that it can."""
    if isinstance(value, MappingProxyType):
        return dict(value)
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value))


encode = msgspec.msgpack.Encoder(enc_hook=plain).encode
"""Encodes a message, or a part of one."""


def row_of(info: RunInfo) -> RunRow:
    """Return `info` for a message."""
    return RunRow(
        id=info.id,
        folder=str(info.folder),
        spec=packed_spec(info.spec),
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


def packed_spec(spec: RunSpec) -> Spec:
    """Return the settings of `spec` that are not the defaults."""
    return without_defaults(spec)


def without_defaults(struct: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of `struct` that are not the defaults: a side that does not know one of the
    others does as it would do by itself."""
    defaults = _defaults(type(struct))
    settings: dict[str, Any] = msgspec.to_builtins(struct)
    return {
        name: value
        for name, value in settings.items()
        if name not in defaults or value != defaults[name]
    }


def packed_history(history: SettingsHistory) -> StoredSettings:
    """Return `history` for a message."""

    def packed(spec: RunSpec | None) -> Spec | None:
        return None if spec is None else packed_spec(spec)

    older = {attempt: packed(spec) for attempt, spec in history.older.items()}
    return StoredSettings(packed(history.now), older)


def unpacked_history(stored: StoredSettings) -> SettingsHistory:
    """Return the history in a message. Raises ValueError if only a newer version can read it."""

    def unpacked(settings: Spec | None) -> RunSpec | None:
        return None if settings is None else known_spec(settings)

    older = {attempt: unpacked(settings) for attempt, settings in sorted(stored.older.items())}
    return SettingsHistory(unpacked(stored.now), older)


def known_spec(settings: Spec) -> RunSpec:
    """Return the settings of a run without those that only a newer version knows."""
    known = {name: value for name, value in settings.items() if name in _FIELDS}
    return msgspec.convert(known, RunSpec)


def unpacked_spec(settings: Spec) -> RunSpec:
    """Return the spec in a request. Raises UnfitSettings."""
    for name in settings:
        if name not in _FIELDS:
            text = (
                f"The Traindeck of that machine does not know the setting {name}: update it, or "
                "leave that setting at its default."
            )
            raise UnfitSettings(Problem("", text))
    try:
        return msgspec.convert(settings, RunSpec)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        field = where.strip(".`").partition("[")[0]
        raise UnfitSettings(Problem(field, f"The setting {field} does not fit: {what}.")) from error


def packed_request(request: planning.Request) -> Asked:
    """Return what is to be measured, for a message."""
    asked: Asked = msgspec.to_builtins(request)
    del asked["machine"]
    specs = [packed_spec(each) for each in specs_of(request)]
    return asked | ({"entrants": specs} if "entrants" in asked else {"spec": specs[0]})


def unpacked_request(asked: Asked) -> planning.Request:
    """Return what is to be measured. Raises UnfitSettings."""
    try:
        entrants = msgspec.convert(asked.get("entrants", []), list[Spec])
        specs: dict[str, Any] = {"entrants": [unpacked_spec(each) for each in entrants]}
        if "spec" in asked:
            specs = {"spec": unpacked_spec(msgspec.convert(asked["spec"], Spec))}
        found: planning.Request = msgspec.convert(asked | specs, planning.Request)
    except msgspec.ValidationError as error:
        text = f"The Traindeck of that machine cannot measure this ({error}): update it there."
        raise UnfitSettings(Problem("", text)) from error
    for name in asked.keys() - {"type", *found.__struct_fields__}:
        text = f"The Traindeck of that machine does not know {name} of what is measured: update it."
        raise UnfitSettings(Problem("", text))
    return found


def stored_event(seq: int, time: float, event: Packed) -> StoredEvent:
    """Return the event in a message; of a kind that only a newer version knows, a notice."""
    try:
        return StoredEvent(seq, time, _decode_event(event))
    except (msgspec.DecodeError, RecursionError):
        text = "An event that only a newer version of Traindeck reads."
        return StoredEvent(seq, time, Notice(text))


@cache
def _defaults(kind: type[msgspec.Struct]) -> dict[str, Any]:
    found = {}
    for each in fields(kind):
        if each.default is not msgspec.NODEFAULT:
            found[each.name] = msgspec.to_builtins(each.default)
        elif each.default_factory is not msgspec.NODEFAULT:
            found[each.name] = msgspec.to_builtins(each.default_factory())
    return found


_FIELDS = frozenset(RunSpec.__struct_fields__)
_decode_row = msgspec.msgpack.Decoder(RunRow).decode
_decode_event: Any = msgspec.msgpack.Decoder(Event).decode
