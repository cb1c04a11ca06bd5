"""Writes a run as TensorBoard event files, at once or bit by bit while it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.record_writer import RecordWriter

from engine.exports import run_source, tensorboard_events
from engine.exports.run_source import Histogram, Image
from engine.files.atomic_file import create_folders, write_atomically
from engine.files.disk_errors import short_reason
from engine.files.regular_file import LARGEST_JSON, UnfitFile, read_regular
from engine.messages.events import Rewound, RunEnded, TrainingStarted
from engine.runs.run_state import RunState
from engine.runs.store.store_reader import RunReader, StoredEvent
from engine.spec.field_info import Setting

POSITION_FILE = "traindeck-position.json"
"""How far the log was written; TensorBoard does not read it."""

_MOST_REMARKS = 50

Tick = Callable[[int], None]
"""Called with the number of points that were written; it may raise to end the export."""


class Position(msgspec.Struct):
    """How far the log of a run was written."""

    run: str
    """The folder of the run."""

    seq: int = 0
    """The newest event that is considered in it."""

    generation: int = -1
    """That of the store: points may have been removed since."""

    counts: dict[str, int] = {}
    """Points by series."""


class TensorBoardLog:
    """The event files of one run in one folder. A new object begins a new file.

    When points were removed from the run, or a log goes on after its writer was killed, the log
    tells readers to drop all from a step on, and repeats what is valid from there.
    """

    def __init__(self, folder: Path, run: Path, settings: dict[str, Setting]) -> None:
        """`folder` is created if it is missing; `run` is the folder of the run."""
        self._folder, self._run = folder, run
        self._settings = settings
        self._position = Position(str(run))
        self._file: RecordWriter | None = None
        self._has_begun = False
        self.remarks: list[str] = []
        """What is left out, in sentences; each once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def catch_up(self, reader: RunReader, tick: Tick = lambda count: None) -> int:
        """Write what is new in the store; return the number of points. Raises OSError and
        sqlite3.Error: then the next call writes it."""
        is_first = self._file is None
        try:
            file = self._open() if self._file is None else self._file
            written = self._write_new(file, reader, is_first=is_first, tick=tick)
            file.flush()
            self._save_position()
        except BaseException:
            self.close()  # the next call begins a new file, from where the last good one ended
            raise
        return written

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def _open(self) -> RecordWriter:
        create_folders(self._folder)
        self._position = read_position(self._folder) or Position(str(self._run))
        older = sorted(path.name for path in self._folder.glob("events.out.tfevents.*"))
        now = time.time()
        # Readers take the files in the order of their names, also when the clock was set back.
        stamp = max([int(now), *(_stamp(name) for name in older)])
        file = self._folder / f"events.out.tfevents.{stamp:010}.{len(older):04}.traindeck"
        self._file = RecordWriter(file.open("xb", buffering=2**16))
        self._has_begun = bool(older)
        _write(self._file, tensorboard_events.first_event(now))
        if not older and self._settings:
            event = tensorboard_events.settings_event(now, self._settings, self._run.name)
            _write(self._file, event)
        return self._file

    def _write_new(
        self, file: RecordWriter, reader: RunReader, *, is_first: bool, tick: Tick
    ) -> int:
        position = self._position
        generation, counts = reader.generation(), reader.counts()
        new_events = run_source.all_events(reader, position.seq)
        begin = _NEVER
        if self._has_begun and is_first:
            begin = self._first_unwritten(reader, counts, new_events)
        if position.generation not in (-1, generation):
            begin = min(begin, _rewound_to(new_events))
        repeated: list[Image | Histogram] = []
        if begin != _NEVER:
            _write(file, tensorboard_events.purge_event(time.time(), begin))
            position.counts = {name: reader.place_of(name, begin) for name in counts}
            known = [each for each in run_source.all_events(reader) if each.seq <= position.seq]
            rewinds = [each for each in new_events if isinstance(each.event, Rewound)]
            kept = run_source.media([*known, *rewinds])
            repeated = [each for each in kept if each.event.step >= begin]
        position.generation = generation
        self._write_media(file, [*repeated, *run_source.media(new_events)])
        written = 0
        for series, count in counts.items():
            written += self._write_points(file, reader, series, count, tick)
        for stored in new_events:
            # A run that failed may be resumed, and readers believe the first end that they read.
            if isinstance(stored.event, TrainingStarted) and stored.event.metric_directions:
                directions = stored.event.metric_directions
                _write(file, tensorboard_events.directions_event(stored.time, directions))
            if isinstance(stored.event, RunEnded) and stored.event.state == RunState.FINISHED:
                _write(file, tensorboard_events.end_event(stored.time))
            position.seq = stored.seq
        return written

    def _write_points(
        self, file: RecordWriter, reader: RunReader, series: str, count: int, tick: Tick
    ) -> int:
        written, known = 0, self._position.counts.get(series, 0)
        while known < count:
            points = reader.points_after(series, known)
            if not len(points.step):
                break  # they were removed at this moment: the generation tells, the next time
            steps = points.step.astype("int64").tolist()
            for step, moment, value in zip(
                steps, points.time.tolist(), points.value.tolist(), strict=True
            ):
                event = tensorboard_events.scalar_event(series, step, moment, value)
                _write(file, event)
            written += len(steps)
            known = points.count
            self._position.counts[series] = known
            tick(len(steps))
        return written

    def _write_media(self, file: RecordWriter, found: list[Image | Histogram]) -> None:
        for each in found:
            if isinstance(each, Histogram):
                if len(each.event.edges) == len(each.event.counts) + 1 >= 2:
                    event = tensorboard_events.histogram_event(
                        each.event.series,
                        each.event.step,
                        each.time,
                        each.event.edges,
                        each.event.counts,
                    )
                    _write(file, event)
                continue
            try:
                png = run_source.read_image(self._run, each.event)
            except OSError as error:
                self._leave_out(each.event.series, error)
                continue
            size = each.event.width, each.event.height
            event = tensorboard_events.image_event(
                each.event.series, each.event.step, each.time, png, size
            )
            _write(file, event)

    def _leave_out(self, series: str, error: OSError) -> None:
        """Say that an image was deleted, or is none of the run: the others are written."""
        reason = str(error) if isinstance(error, UnfitFile) else short_reason(error)
        text = f"An image of {series!r} is left out: {reason}."
        if text not in self.remarks and len(self.remarks) < _MOST_REMARKS:
            self.remarks.append(text)

    def _first_unwritten(
        self, reader: RunReader, counts: dict[str, int], new_events: list[StoredEvent]
    ) -> int:
        """Return the lowest step of what may be in the files without being in the position."""
        found = [each.event.step for each in run_source.media(new_events)]
        for series, count in counts.items():
            known = self._position.counts.get(series, 0)
            if known < count:
                found.append(reader.step_at(series, known))
        return min(found, default=_NEVER)

    def _save_position(self) -> None:
        data = msgspec.json.encode(self._position)
        write_atomically(self._folder / POSITION_FILE, data, mode=0o600)


def read_position(folder: Path) -> Position | None:
    """Return how far the log in `folder` was written; None if it holds none."""
    try:
        data = read_regular(folder / POSITION_FILE, LARGEST_JSON)
        return msgspec.json.decode(data, type=Position)
    except (OSError, ValueError):
        return None


_NEVER = 2**62


def _write(file: RecordWriter, event: Event) -> None:
    file.write(event.SerializeToString())


def _rewound_to(events: list[StoredEvent]) -> int:
    """Return the lowest step to which the run went back."""
    return min((e.event.step for e in events if isinstance(e.event, Rewound)), default=0)


def _stamp(name: str) -> int:
    part = name.split(".")[3]
    return int(part) if part.isdecimal() else 0
