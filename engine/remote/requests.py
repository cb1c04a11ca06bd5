"""The frames between two Traindecks: calls of the engine's methods, and watches that push news.

The major number of the protocol is equal on both sides. A newer minor number only adds: fields with
defaults, which the older side ignores, and watches, which it refuses in a sentence. The methods
that a side offers are in its `Hello`. Events, runs and cursors travel packed by themselves
(`Packed`), so that one that the other side cannot read costs nothing but itself.
"""

from __future__ import annotations

from typing import Any

import msgspec

from engine.interface.failures import Refusal
from engine.interface.packed_points import PackedPoints
from engine.telemetry.snapshot import Snapshot

MAJOR, MINOR = 2, 0
"""The version of the protocol; see `docs/compatibility.md`."""

Packed = bytes
"""A part of a message that was encoded by itself; empty: there is none."""

Spec = dict[str, Any]
"""The settings of a `RunSpec` that are not the defaults."""


class Request(msgspec.Struct, frozen=True):
    """Begins or changes a watch; it is answered once, with nothing."""


class Ping(Request, frozen=True, tag="ping"):
    """Is the other side there?"""


class WatchRuns(Request, frozen=True, tag="watch_runs"):
    """Push `RunsNews` from now on."""

    known: dict[str, int] = {}
    """The digests of the runs that the asking side has, by id: these are not sent."""


class WatchDevices(Request, frozen=True, tag="watch_devices"):
    """Push `DevicesNews` from now on, about every second."""


class Follow(Request, frozen=True, tag="follow"):
    """Push `FollowNews` of a run from now on."""

    run: str
    series: tuple[str, ...] = ()
    """Those whose points are wanted; they need not exist yet."""

    most: int = 2000
    """Points in which a long curve is read, about."""

    cursor: Packed = b""
    """The last one that came; empty: from the beginning of the run."""


class Show(Request, frozen=True, tag="show"):
    """From now on, other series of a followed run are wanted."""

    watch: int
    """The number of the call that began it."""

    series: tuple[str, ...]
    most: int = 2000


class ShowDevice(Request, frozen=True, tag="show_device"):
    """From now on, measure the traffic (PCIe, NVLink) of one GPU, which is slow to read."""

    watch: int
    """The number of the call that began `WatchDevices`."""

    device: str
    """Its UUID; empty: of none."""


class Unwatch(Request, frozen=True, tag="unwatch"):
    """Push no more of what a call began."""

    watch: int


class WatchSweeps(Request, frozen=True, tag="watch_sweeps"):
    """Push `SweepsNews` from now on."""


Subscription = WatchRuns | WatchDevices | WatchSweeps | Follow
"""What begins a watch: from then on, news are pushed."""

AnyRequest = Ping | Subscription | Show | ShowDevice | Unwatch
"""All requests; a `match` on it ends in `assert_never`."""


class RunsNews(msgspec.Struct, frozen=True):
    """What is new in the list of runs."""

    ids: list[str]
    """All readable runs, newest first."""

    changed: dict[str, Packed]
    """The `RunRow` of each run that is new or has changed."""

    unreadable: dict[str, str] = {}
    """Why runs cannot be read, by id."""

    trashed: list[str] = []
    """The runs in the trash, newest first."""


class SweepsNews(msgspec.Struct, frozen=True):
    """What is new of the sweeps."""

    numbers: list[str]
    """All sweeps, newest first."""

    changed: dict[str, Packed]
    """The `SweepPart` of each sweep that is new or has changed."""


class DevicesNews(msgspec.Struct, frozen=True):
    """The devices now."""

    snapshot: Snapshot


class Curve(msgspec.Struct, frozen=True, omit_defaults=True):
    """New points of a series."""

    series: str
    points: PackedPoints
    replaces: bool = False


class StoryPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """Events, or lines of a rank."""

    events: list[tuple[int, float, Packed]] = []
    """Number, time (seconds since the epoch) and event."""

    rank: int = 0
    lines: list[str] = []
    has_gaps: bool = False


class FollowNews(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is new of a followed run."""

    cursor: Packed
    """How far it was read; see `Follow.cursor`."""

    curves: list[Curve] = []
    story: list[StoryPart] = []
    run: Packed = b""
    """A `RunRow`, if it has changed."""

    series: list[str] | None = None
    trouble: str = ""


News = RunsNews | SweepsNews | DevicesNews | FollowNews


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first message of each side."""

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
    """A call of a method; it is answered by an `Answered` of the same number."""

    number: int
    method: str
    arguments: Packed


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """A request; it is answered by an `Answered` of the same number, by which news are pushed."""

    number: int
    request: Packed


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """The answer to a call is not wanted any more."""

    number: int


class Acknowledge(msgspec.Struct, frozen=True, tag="acknowledge"):
    """A push has arrived: the next one of the same watch may follow."""

    watch: int


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


class Push(msgspec.Struct, frozen=True, tag="push"):
    """News of what a call began to watch. The next one comes only after its `Acknowledge`."""

    watch: int
    news: Packed


ToRemote = Hello | Call | Ask | Cancel | Acknowledge
FromRemote = Hello | Answered | Told | Push


class Tagged(msgspec.Struct, frozen=True):
    """What every message has."""

    type: str = ""
