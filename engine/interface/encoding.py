"""How arguments and answers travel: msgpack, by the annotations of the methods of an engine.

A version that is newer on one side only adds: what it adds to an answer is ignored, and what it
adds to an argument is refused by name, because it could not be honoured. Fields of arguments that
have their default do not travel, so an older side is asked only for what it may not know.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import GenericAlias
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from engine.interface.engine import Engine, Stream, Terms
from engine.interface.news import packed_points, run_curves, run_news
from engine.interface.news.packed_points import PackedPoints
from engine.interface.news.run_curves import RunCurves, SentCurves
from engine.interface.news.run_news import RunsNews, RunUpdate, SentNews, SentRuns, SentUpdate
from engine.interface.value_encoding import encode, known_spec, plain, without_defaults
from engine.interface.values import CheckpointName, Packed, is_time
from engine.runs.checkpoints.checkpoint_files import CheckpointInfo, Manifest
from engine.runs.run_follower import RunNews
from engine.runs.run_info import RunInfo
from engine.runs.settings_history import SettingsHistory
from engine.runs.store.stored_points import StoredPoints
from engine.spec.run_spec import FIELDS, RunSpec


class UnfitArgument(ValueError):
    """Arguments that this version cannot honour; the text is a sentence."""

    def __init__(self, text: str, field: str = "") -> None:
        """`field`: the setting of a run that does not fit."""
        super().__init__(text)
        self.field = field


class Method(NamedTuple):
    """A method of an engine."""

    name: str
    terms: Terms
    values: dict[str, Any]
    """The types of the arguments that travel, by name."""

    functions: dict[str, Any]
    """By the name of each argument that is a function: the types of what it is called with, which
    travels back."""

    event: str
    """The argument that cancels the call; empty: there is none."""

    answer: Any
    """The type of what it returns, or of each that it yields."""

    yields: bool
    signature: inspect.Signature


@cache
def methods() -> dict[str, Method]:
    """Return the methods that an engine offers, by name."""
    found = {
        name: function for name, function in vars(Engine).items() if hasattr(function, "terms")
    }
    return {name: _method(name, function) for name, function in found.items()}


def _method(name: str, function: Any) -> Method:
    hints = get_type_hints(function, include_extras=True)
    answer, event = hints.pop("return"), ""
    values: dict[str, Any] = {}
    functions: dict[str, Any] = {}
    for each, kind in hints.items():
        if kind is threading.Event:
            event = each
        elif get_origin(kind) is _FUNCTION:
            functions[each] = GenericAlias(tuple, tuple(get_args(kind)[0]))
        else:
            values[each] = kind
    if yields := get_origin(answer) is Stream:
        answer = next(each for each in get_args(get_args(answer)[0]) if each is not type(None))
    signature = inspect.signature(function)
    return Method(name, function.terms, values, functions, event, answer, yields, signature)


_FUNCTION = get_origin(Callable[[], None])


def encode_arguments(arguments: Mapping[str, Any]) -> bytes:
    """Return arguments for a message, by name."""
    return encode({name: without_defaults(value) for name, value in arguments.items()})


def decode_arguments(method: Method, packed: bytes) -> dict[str, Any]:
    """Return the arguments in a message. Raises UnfitArgument, DecodeError."""
    given = msgspec.msgpack.decode(packed, type=dict[str, Any])
    for name in given:
        if name not in method.values:
            raise UnfitArgument(_unknown(name, method.name))
    found = {
        name: checked_argument(method.values[name], value, name, method.name)
        for name, value in given.items()
    }
    for name in method.values.keys() - found.keys():
        if method.signature.parameters[name].default is inspect.Parameter.empty:
            raise UnfitArgument(
                f"The Traindeck of that machine needs {name} for this ({method.name})."
            )
    return found


def checked_argument(kind: Any, value: Any, name: str, method: str) -> Any:
    """Return the argument `name` of a `method` in a message as a `kind`. Raises UnfitArgument."""
    try:
        found = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        if field_name := re.search("unknown field `([^`]*)`", str(error)):
            raise UnfitArgument(_unknown(field_name[1], method)) from error
        what, _, where = str(error).partition(" - at `$")
        field = where.strip(".`").partition("[")[0]
        setting = field.rpartition(".")[2]
        subject = f"The setting {setting}" if setting else f"What is given as {name}"
        is_of_run = kind in (RunSpec, RunSpec | None)
        given = value.get(setting) if is_of_run and isinstance(value, dict) else None
        if setting in FIELDS and isinstance(given, int | float):
            text = FIELDS[setting].problem(given)
            if text:  # as it is said here
                raise UnfitArgument(text, field) from error
        raise UnfitArgument(
            f"{subject} does not fit: {what}.", field if is_of_run else ""
        ) from error
    if unknown := _first_unknown(value, msgspec.to_builtins(found, enc_hook=plain)):
        raise UnfitArgument(_unknown(unknown, method))
    return found


def _unknown(name: str, method: str) -> str:
    return (
        f"The Traindeck of that machine does not know the setting {name} ({method}): update "
        "it, or leave that setting at its default."
    )


def _first_unknown(given: Any, known: Any) -> str:
    """Return the first name in `given` that is not in `known`, at any depth."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(given, dict) and isinstance(known, dict):
        for name in given:
            if name not in known:
                return str(name)
        pairs = [(given[name], known[name]) for name in given]
    elif isinstance(given, list) and isinstance(known, list | tuple):
        pairs = list(zip(given, known, strict=False))
    return next(filter(None, (_first_unknown(*pair) for pair in pairs)), "")


class _StoredSettings(msgspec.Struct, frozen=True):
    """A `SettingsHistory`, of whose settings only those are there that are not the defaults."""

    now: dict[str, Any] | None
    older: dict[int, dict[str, Any] | None] = {}


def _pack_settings(history: SettingsHistory) -> _StoredSettings:
    return _StoredSettings(
        without_defaults(history.now),
        {attempt: without_defaults(spec) for attempt, spec in history.older.items()},
    )


def _unpack_settings(stored: _StoredSettings, _: str) -> SettingsHistory:
    older = {
        attempt: None if settings is None else known_spec(settings)
        for attempt, settings in sorted(stored.older.items())
    }
    return SettingsHistory(None if stored.now is None else known_spec(stored.now), older)


def _unpack_checkpoints(found: list[tuple[str, Manifest]], _: str) -> list[CheckpointInfo]:
    if not all(is_time(manifest.saved) for _, manifest in found):
        raise ValueError("a checkpoint was saved at no time that there is")
    return [CheckpointInfo(Path(name), manifest) for name, manifest in found]


class _Form(NamedTuple):
    """How an answer travels whose type msgspec does not know."""

    kind: Any
    pack: Callable[[Any], Any]
    unpack: Callable[[Any, str], Any]
    """Gets what came, and the name of the machine."""


_FORMS: dict[Any, _Form] = {
    StoredPoints: _Form(
        PackedPoints, packed_points.pack, lambda found, _: packed_points.unpack(found)
    ),
    RunInfo: _Form(Packed, run_news.encode_run, run_news.unpack_run),
    RunUpdate: _Form(SentUpdate, run_news.pack_update, run_news.unpack_update),
    RunNews: _Form(SentNews, run_news.pack_news, run_news.unpack_news),
    RunsNews: _Form(SentRuns, run_news.pack_runs, run_news.unpack_runs),
    RunCurves: _Form(SentCurves, run_curves.pack_curves, run_curves.unpack_curves),
    SettingsHistory: _Form(_StoredSettings, _pack_settings, _unpack_settings),
    list[CheckpointInfo]: _Form(
        list[tuple[CheckpointName, Manifest]],
        lambda found: [(each.folder.name, each.manifest) for each in found],
        _unpack_checkpoints,
    ),
}


def encode_answer(method: Method, answer: Any) -> bytes:
    """Return what a method returns, or one of what it yields, for a message."""
    form = _FORMS.get(method.answer)
    return encode(form.pack(answer) if form else answer)


def decode_answer(method: Method, packed: bytes, machine: str = "") -> Any:
    """Return the answer of a `machine` in a message.

    Raises DecodeError, ValueError, RecursionError, OverflowError.
    """
    form = _FORMS.get(method.answer)
    found = msgspec.msgpack.decode(packed, type=form.kind if form else method.answer)
    return form.unpack(found, machine) if form else found


def decode_told(method: Method, name: str, packed: bytes) -> list[Any]:
    """Return what the function `name` among the arguments of a method is called with.

    Raises DecodeError, RecursionError.
    """
    return list(msgspec.msgpack.decode(packed, type=method.functions[name]))
