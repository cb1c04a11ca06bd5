"""News of the list of runs, and of one run: how they travel between versions that may differ.

Each run and each event is encoded by itself, so that one that the other side cannot read costs
nothing but itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, overload

import msgspec

from engine.files.log_tail import MAX_LINE
from engine.interface.news import packed_points
from engine.interface.news.packed_points import PackedPoints
from engine.interface.value_encoding import encode, known_spec, without_defaults
from engine.interface.values import MOST_RUNS, MOST_SERIES, Packed, TooMuch, is_run_number, is_time
from engine.messages.events import Event, Notice
from engine.runs.best_metrics import BestFigure
from engine.runs.run_follower import Output, RunNews
from engine.runs.run_info import Origin, RunInfo, UnreadableRun
from engine.runs.run_notes import RunNotes
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store.store_follower import CurveUpdate
from engine.runs.store.store_reader import StoredEvent

UNREADABLE = (ValueError, RecursionError, OverflowError)
"""What decoding raises for nonsense, and for what only a newer version can read."""


class RunsNews(NamedTuple):
    """What is new in the list of runs."""

    ids: list[str]
    """All readable runs, newest first."""

    changed: Sequence[RunInfo | UnreadableRun]
    """The runs that are new or have changed, or why one cannot be read here. The folder of one of
    another machine is no path here, and begins with the name of the machine."""

    digests: dict[str, int]
    """Those of the changed runs; see `Engine.watch_runs`."""

    unreadable: list[UnreadableRun]
    trashed: list[str]
    """The runs in the trash, newest first."""


class RunUpdate(NamedTuple):
    """The state of a run at one time."""

    status: RunStatus
    state: RunState
    events: list[StoredEvent]
    """Events since the last update."""


class RunRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A `RunInfo` in a message."""

    id: str
    folder: str
    spec: dict[str, Any]
    """The settings that are not the defaults."""

    status: RunStatus
    state: RunState
    reason: str = ""
    notes: RunNotes = RunNotes()
    best: dict[str, BestFigure] = {}
    has_orphans: bool = False
    is_recorded: bool = True
    origin: Origin = Origin()


def encode_run(info: RunInfo) -> Packed:
    """Return `info` for a message."""
    values = info._asdict() | {
        "folder": str(info.folder),
        "spec": without_defaults(info.spec),
        "best": dict(info.best),
    }
    return encode(RunRow(**values))


def digest_of(row: Packed) -> int:
    """Return what tells a run that has changed from one that has not."""
    return zlib.crc32(row)


def unpack_run(row: Packed, machine: str) -> RunInfo:
    """Return the run of a `machine` in a message. Raises ValueError."""
    found = decode_run(row, machine)
    if isinstance(found, UnreadableRun):
        raise ValueError(found.reason)
    return found


def decode_run(row: Packed, machine: str, run_id: str = "") -> RunInfo | UnreadableRun:
    """Return the run of a `machine` in a message, or why it cannot be read.

    `run_id`: the number that it must have, if that is known.
    """
    try:
        found = _decode_row(row)
        if not is_run_number(found.id) or (run_id and found.id != run_id):
            raise ValueError(f"it is called {found.id[:50]!r}")
        if not (is_time(found.status.started) and is_time(found.status.updated)):
            raise ValueError("it was started or changed at no time that there is")
        values = {name: getattr(found, name) for name in RunInfo._fields}
        folder = Path(f"{machine}:{found.folder}")  # it is no path here
        return RunInfo(**values | {"folder": folder, "spec": known_spec(found.spec)})
    except UNREADABLE as error:
        name = f"Run {run_id}" if run_id else "This run"
        text = f"{name} can only be read by the Traindeck of its machine: {error}."
        return UnreadableRun(run_id, _NOWHERE, text)


def decode_event(seq: int, time: float, event: Packed) -> StoredEvent:
    """Return the event in a message; of a kind that only a newer version knows, a notice."""
    try:
        return StoredEvent(seq, time, _decode_event(event))
    except (msgspec.DecodeError, RecursionError):
        text = "An event that only a newer version of Traindeck reads."
        return StoredEvent(seq, time, Notice(text))


_UpToRuns = msgspec.Meta(max_length=MOST_RUNS)
_UpToSeries = msgspec.Meta(max_length=MOST_SERIES)
MOST_EVENTS = 5000
"""Events in one message, and parts of its story; a server sends a tenth of it."""

MOST_LINES = 10_000
"""Lines in one message that are taken, the newest ones: the window shows no more."""

LONGEST_LINE = MAX_LINE + 100
"""Characters of a line that are taken: a server has cut it before, and says so."""

_UpToEvents = msgspec.Meta(max_length=MOST_EVENTS)
_UpToLines = msgspec.Meta(max_length=2**18)  # a server sends as many bytes at most


class SentRuns(msgspec.Struct, frozen=True):
    """`RunsNews` in a message. Its lengths are checked before anything of it is decoded."""

    ids: Annotated[list[str], _UpToRuns]
    changed: Annotated[dict[str, Packed], _UpToRuns]
    unreadable: Annotated[dict[str, str], _UpToRuns] = {}
    trashed: Annotated[list[str], _UpToRuns] = []


def pack_runs(news: RunsNews) -> SentRuns:
    """Return news of the list of runs for a message."""
    changed = {each.id: encode_run(each) for each in news.changed if isinstance(each, RunInfo)}
    reasons = {each.id: each.reason for each in news.unreadable}
    return SentRuns(news.ids, changed, reasons, news.trashed)


class PackedRuns(Sequence[RunInfo | UnreadableRun]):
    """Runs in a message, each decoded when it is asked for: of tens of thousands, a window lists
    some. What all of them become keeps the threads of a window waiting."""

    def __init__(self, rows: Mapping[str, bytes], machine: str) -> None:
        self.rows = rows
        """By number."""

        self._machine = machine

    def decoded(self, run_id: str) -> RunInfo | UnreadableRun:
        """Return the run with this number."""
        return decode_run(msgspec.Raw(self.rows[run_id]), self._machine, run_id)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, at: int) -> RunInfo | UnreadableRun: ...

    @overload
    def __getitem__(self, at: slice) -> list[RunInfo | UnreadableRun]: ...

    def __getitem__(self, at: int | slice) -> Any:
        found = [*self.rows][at]
        return self.decoded(found) if isinstance(found, str) else [*map(self.decoded, found)]

    def __iter__(self) -> Iterator[RunInfo | UnreadableRun]:
        return map(self.decoded, self.rows)


def unpack_runs(sent: SentRuns, machine: str) -> RunsNews:
    """Return news of the list of runs of a `machine`, without what is no number of a run."""
    rows = {run_id: bytes(row) for run_id, row in sent.changed.items() if is_run_number(run_id)}
    return RunsNews(
        [run_id for run_id in sent.ids if is_run_number(run_id)],
        PackedRuns(rows, machine),
        {run_id: zlib.crc32(row) for run_id, row in rows.items()},
        [
            UnreadableRun(run_id, _NOWHERE, why)
            for run_id, why in sent.unreadable.items()
            if is_run_number(run_id)
        ],
        [run_id for run_id in sent.trashed if is_run_number(run_id)],
    )


class SentUpdate(msgspec.Struct, frozen=True):
    """A `RunUpdate` in a message."""

    status: RunStatus
    state: RunState
    events: list[tuple[int, float, Packed]] = []


def pack_update(update: RunUpdate) -> SentUpdate:
    """Return an update for a message."""
    return SentUpdate(update.status, update.state, pack_events(update.events))


def unpack_update(sent: SentUpdate, _: str) -> RunUpdate:
    """Return the update in a message."""
    return RunUpdate(sent.status, sent.state, [decode_event(*each) for each in sent.events])


class Curve(msgspec.Struct, frozen=True, omit_defaults=True):
    """New points of a series."""

    series: str
    points: PackedPoints
    replaces: bool = False


class StoryPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """Events, or lines of a rank."""

    events: Annotated[list[tuple[int, float, Packed]], _UpToEvents] = []
    """Number, time (seconds since the epoch) and event."""

    rank: int = 0
    lines: Annotated[list[str], _UpToLines] = []
    has_gaps: bool = False


class SentNews(msgspec.Struct, frozen=True, omit_defaults=True):
    """The `RunNews` of a followed run in a message."""

    cursor: Packed
    curves: Annotated[list[Curve], _UpToSeries] = []
    story: Annotated[list[msgspec.Raw], _UpToEvents] = []
    """A `StoryPart` each: decoded one by one, they hold up no other thread."""

    run: Packed = b""
    """A `RunRow`, if it has changed."""

    series: Annotated[list[str], _UpToSeries] | None = None
    trouble: str = ""


def pack_news(news: RunNews) -> SentNews:
    """Return news of a run for a message."""
    info = news.info
    return SentNews(
        cursor=news.cursor,
        curves=[
            Curve(update.series, packed_points.pack(update.points), update.replaces)
            for update in news.curves
        ],
        story=[msgspec.Raw(encode(_pack_part(each))) for each in news.story],
        run=encode_run(info) if info else b"",
        series=None if news.series is None else list(news.series),
        trouble=news.trouble,
    )


def unpack_news(sent: SentNews, machine: str) -> RunNews:
    """Return news of a run of a `machine`. Raises ValueError, TooMuch."""
    story = _unpack_story(sent.story)
    curves = [
        CurveUpdate(curve.series, packed_points.unpack(curve.points), curve.replaces)
        for curve in sent.curves
    ]
    info = decode_run(sent.run, machine) if sent.run else None
    if isinstance(info, UnreadableRun):
        return RunNews(curves, story, None, sent.series, info.reason, sent.cursor)
    return RunNews(curves, story, info, sent.series, sent.trouble, sent.cursor)


def _unpack_story(parts: Sequence[msgspec.Raw]) -> list[Sequence[StoredEvent] | Output]:
    """Return events and output in their order, without lines before the newest MOST_LINES; lines of
    one rank that follow each other are one part."""
    story: list[Sequence[StoredEvent] | Output] = []
    lines_left, events_left = MOST_LINES, MOST_EVENTS
    for part in map(_decode_part, reversed(parts)):
        if part.events:
            if (events_left := events_left - len(part.events)) < 0:
                raise TooMuch(f"it sends more than {MOST_EVENTS:,} events at once")
            story.append([decode_event(*event) for event in part.events])
            continue
        first = max(0, len(part.lines) - lines_left)
        lines = [line[:LONGEST_LINE] for line in part.lines[first:]]
        lines_left -= len(lines)
        output = Output(part.rank, lines, part.has_gaps or first > 0)
        later = story[-1] if story else None
        if isinstance(later, Output) and later.rank == part.rank and not later.has_gaps:
            story[-1] = output._replace(lines=[*lines, *later.lines])
        else:
            story.append(output)
    return story[::-1]


def _pack_part(part: Sequence[StoredEvent] | Output) -> StoryPart:
    if isinstance(part, Output):
        return StoryPart(rank=part.rank, lines=list(part.lines), has_gaps=part.has_gaps)
    return StoryPart(pack_events(part))


def pack_events(events: Sequence[StoredEvent]) -> list[tuple[int, float, Packed]]:
    """Return events for a message: number, time and event of each."""
    return [(each.seq, each.time, encode(each.event)) for each in events]


_NOWHERE = Path()
_decode_part = msgspec.msgpack.Decoder(StoryPart).decode
_decode_row = msgspec.msgpack.Decoder(RunRow).decode
_decode_event: Any = msgspec.msgpack.Decoder(Event).decode
