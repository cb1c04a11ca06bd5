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
from types import GenericAlias, MappingProxyType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import fields

from engine.interface import packed_points
from engine.interface.engine import Engine, Terms
from engine.interface.packed_points import PackedPoints
from engine.interface.values import CheckpointName, is_time
from engine.runs.checkpoint_files import CheckpointInfo, Manifest
from engine.runs.settings_history import SettingsHistory
from engine.runs.store.stored_points import StoredPoints
from engine.spec.run_spec import RunSpec


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
    signature = inspect.signature(function)
    return Method(name, function.terms, values, functions, event, answer, signature)


_FUNCTION = get_origin(Callable[[], None])


def plain(value: Any) -> Any:
    """Return what msgspec cannot encode by itself in a form that it can."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value))


encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder(enc_hook=plain).encode
"""Encodes a message, or a part of one."""


def encode_arguments(arguments: Mapping[str, Any]) -> bytes:
    """Return arguments for a message, by name."""
    return encode({name: without_defaults(value) for name, value in arguments.items()})


def without_defaults(value: Any) -> Any:
    """Return `value` without the fields, at any depth, that have their defaults."""
    match value:
        case msgspec.Struct():
            config = value.__struct_config__
            kept = {
                each.encode_name: without_defaults(given)
                for each in fields(value)
                if (given := getattr(value, each.name)) != _default(each)
            }
            return {config.tag_field: config.tag, **kept} if config.tag is not None else kept
        case dict() | MappingProxyType():
            return {key: without_defaults(each) for key, each in value.items()}
        case tuple() | list():
            return [without_defaults(each) for each in value]
        case _:
            return value


def _default(field: Any) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default  # NODEFAULT, which equals nothing that is given


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


def known_spec(settings: Mapping[str, Any]) -> RunSpec:
    """Return the settings of a run without those that only a newer version knows.

    Raises ValidationError.
    """
    known = {name: value for name, value in settings.items() if name in _SETTINGS}
    return msgspec.convert(known, RunSpec)


_SETTINGS = frozenset(RunSpec.__struct_fields__)


class _StoredSettings(msgspec.Struct, frozen=True):
    """A `SettingsHistory`, of whose settings only those are there that are not the defaults."""

    now: dict[str, Any] | None
    older: dict[int, dict[str, Any] | None] = {}


def _pack_settings(history: SettingsHistory) -> _StoredSettings:
    return _StoredSettings(
        without_defaults(history.now),
        {attempt: without_defaults(spec) for attempt, spec in history.older.items()},
    )


def _unpack_settings(stored: _StoredSettings) -> SettingsHistory:
    older = {
        attempt: None if settings is None else known_spec(settings)
        for attempt, settings in sorted(stored.older.items())
    }
    return SettingsHistory(None if stored.now is None else known_spec(stored.now), older)


def _unpack_checkpoints(found: list[tuple[str, Manifest]]) -> list[CheckpointInfo]:
    if not all(is_time(manifest.saved) for _, manifest in found):
        raise ValueError("a checkpoint was saved at no time that there is")
    return [CheckpointInfo(Path(name), manifest) for name, manifest in found]


class _Form(NamedTuple):
    """How an answer travels whose type msgspec does not know."""

    kind: Any
    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]


_FORMS: dict[Any, _Form] = {
    StoredPoints: _Form(PackedPoints, packed_points.pack, packed_points.unpack),
    SettingsHistory: _Form(_StoredSettings, _pack_settings, _unpack_settings),
    list[CheckpointInfo]: _Form(
        list[tuple[CheckpointName, Manifest]],
        lambda found: [(each.folder.name, each.manifest) for each in found],
        _unpack_checkpoints,
    ),
}


def encode_answer(method: Method, answer: Any) -> bytes:
    """Return the answer of a method for a message."""
    form = _FORMS.get(method.answer)
    return encode(form.pack(answer) if form else answer)


def decode_answer(method: Method, packed: bytes) -> Any:
    """Return the answer in a message. Raises DecodeError, ValueError, RecursionError."""
    form = _FORMS.get(method.answer)
    found = msgspec.msgpack.decode(packed, type=form.kind if form else method.answer)
    return form.unpack(found) if form else found


def decode_told(method: Method, name: str, packed: bytes) -> list[Any]:
    """Return what the function `name` among the arguments of a method is called with.

    Raises DecodeError, RecursionError.
    """
    return list(msgspec.msgpack.decode(packed, type=method.functions[name]))
