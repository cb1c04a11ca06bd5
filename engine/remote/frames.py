"""The frames between two Traindecks: calls of an engine's methods, and what they yield.

The major number of the protocol is equal on both sides. A newer minor number only adds fields with
defaults, which the older side ignores. The methods that a side offers are in its `Hello`.
"""

from __future__ import annotations

import msgspec

from engine.interface.failures import Refusal
from engine.interface.values import Packed

MAJOR, MINOR = 3, 0
"""The version of the protocol; see `docs/compatibility.md`."""


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first frame of each side."""

    major: int
    minor: int
    version: str
    """Of Traindeck."""

    host: str = ""
    """The name that the machine gives itself."""

    methods: list[str] = []
    """Those of its engine that it offers."""

    program: str = ""
    """What the asking person starts Traindeck with, and `machine`: what that person calls the other
    machine. Its sentences name commands so."""

    machine: str = ""


class Call(msgspec.Struct, frozen=True, tag="call"):
    """A call of a method; it is answered by an `Answered` of the same number, at its end."""

    number: int
    method: str
    arguments: Packed


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """The answer to a call is not wanted any more, nor what it yields."""

    number: int


class Next(msgspec.Struct, frozen=True, tag="next"):
    """What a call has yielded has arrived: the next one may follow."""

    number: int


class Answered(msgspec.Struct, frozen=True, tag="answered", omit_defaults=True):
    """The answer to a call."""

    number: int
    answer: Packed = b""
    refusal: Refusal | None = None


class Told(msgspec.Struct, frozen=True, tag="told"):
    """What a function among the arguments of a call is called with."""

    number: int
    name: str
    """The argument."""

    values: Packed


class Yielded(msgspec.Struct, frozen=True, tag="yielded"):
    """What a call yields. The next one comes only after its `Next`."""

    number: int
    value: Packed


ToRemote = Hello | Call | Cancel | Next
FromRemote = Hello | Answered | Told | Yielded


class FrameHead(msgspec.Struct, frozen=True):
    """What every frame has."""

    type: str = ""
