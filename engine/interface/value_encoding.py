"""How single values travel: msgpack, without the fields that have their defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import fields

from engine.spec.run_spec import RunSpec


def plain(value: Any) -> Any:
    """Return what msgspec cannot encode by itself in a form that it can."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value))


encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder(enc_hook=plain).encode
"""Encodes a message, or a part of one."""


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


def known_spec(settings: Mapping[str, Any]) -> RunSpec:
    """Return the settings of a run without those that only a newer version knows.

    Raises ValidationError.
    """
    known = {name: value for name, value in settings.items() if name in _SETTINGS}
    return msgspec.convert(known, RunSpec)


_SETTINGS = frozenset(RunSpec.__struct_fields__)
