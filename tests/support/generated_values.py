"""Random messages, made by hypothesis with values of the right types; and how many of them."""

from __future__ import annotations

import types
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

WHOLE = st.integers(-(2**63), 2**64 - 1)
"""The integers that MessagePack can hold."""

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)

sixty_examples = settings(
    deadline=None,
    max_examples=60,
    derandomize=True,
    database=None,
    # A busy machine is slow, and no fault of what is tested.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
"""The same examples each time, so that the tests are repeatable. (To search for more, raise the
number and remove `derandomize`.)"""

fifteen_examples = settings(sixty_examples, max_examples=15)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values that msgspec accepts as `kind`; most of them make no sense."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return values_of(arguments[0])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(values_of, arguments))
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is list:
        return st.lists(values_of(arguments[0]), max_size=4)
    if origin is dict:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=3)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind, include_extras=True)
        fields = {name: values_of(hints[name]) for name in kind.__struct_fields__}
        return st.builds(kind, **fields)
    if isinstance(kind, type) and issubclass(kind, tuple):  # a NamedTuple
        named = get_type_hints(kind, include_extras=True)
        return st.builds(kind, **{name: values_of(hint) for name, hint in named.items()})
    simple: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.one_of(st.integers(-2, 5), WHOLE),
        float: st.floats(),
        str: TEXT,
        bytes: st.binary(max_size=40),
        msgspec.Raw: st.binary(max_size=40).map(msgspec.Raw),
        type(None): st.none(),
    }
    return simple[kind]


def mutated(whole: bytes) -> st.SearchStrategy[bytes]:
    """Return a strategy for copies of `whole` with parts removed, overwritten or inserted."""

    def apply(changes: list[tuple[int, int, bytes]]) -> bytes:
        data = whole
        for place, length, new in changes:
            at = place % (len(data) + 1)
            data = data[:at] + new + data[at + length :]
        return data

    change = st.tuples(
        st.integers(0, 10**6), st.sampled_from([0, 1, 2, 8, 100, 10**6]), st.binary(max_size=20)
    )
    return st.lists(change, min_size=1, max_size=4).map(apply)
