"""Recordings of real runs, as files in `tools/screenshots/runs`.

`python -m tools.screenshots.recording RUN_FOLDER FILE` records the run in a folder.
"""

from __future__ import annotations

import lzma
import sys
import sysconfig
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from engine.messages.events import AttemptStarted, Event, Metrics, Points, TrainingStarted
from engine.processes.machine import Machine
from engine.runs.store.store_reader import RunReader
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import read_spec

FOLDER = Path(__file__).parent / "runs"
RECIPE = FOLDER / "shifted_digits.py"
"""The recipe of the recorded runs."""

SUFFIX = ".msgpack.xz"
START = 6.0
"""A recording begins so many seconds before the first step, if the run took longer to start."""

_BATCH = 0.1
"""Points of a series within so many seconds become one Metrics event."""

_PLACES = 5
"""Significant digits of a recorded value."""


class Moment(msgspec.Struct, frozen=True, array_like=True):
    """An event, `after` seconds from the start; so count begin and end of Metrics too."""

    after: float
    event: Event


class Recording(msgspec.Struct, frozen=True):
    """A run, without names of folders of the machine it ran on."""

    spec: RunSpec
    moments: list[Moment]
    """In order of time, with the metrics."""

    logs: dict[int, list[str]]
    """The lines that each rank printed."""


def load(name: str) -> Recording:
    """Return the recording `name`. Raises OSError or msgspec.DecodeError."""
    packed = (FOLDER / f"{name}{SUFFIX}").read_bytes()
    return msgspec.msgpack.decode(lzma.decompress(packed), type=Recording)


def save(recording: Recording, file: Path) -> None:
    """Write `recording` to `file`, compressed. Raises OSError."""
    file.write_bytes(lzma.compress(msgspec.msgpack.encode(recording), preset=9))


def record(folder: Path) -> Recording:
    """Return a recording of the run in `folder`. Raises UnreadableSpec, sqlite3.Error, OSError."""
    spec = read_spec(folder)
    with RunReader(folder) as reader:
        stored = reader.events_after(0)
        begin = next(each.time for each in stored if isinstance(each.event, TrainingStarted))
        begin = max(begin - START, stored[0].time)
        moments = [Moment(max(0.0, each.time - begin), _anywhere(each.event)) for each in stored]
        for series in reader.counts():
            moments += _curve(reader, series, begin)
    moments.sort(key=lambda moment: moment.after)
    logs = {
        int(file.stem.removeprefix("rank")): file.read_text(errors="replace").splitlines()
        for file in sorted((folder / "logs").glob("rank*.log"))
    }
    everything = msgspec.to_builtins(Recording(spec, moments, logs), str_keys=False)
    engine = Path(__file__).parents[2]
    folders = (folder, Path(spec.recipe).parent, sysconfig.get_path("purelib"), engine, Path.home())
    places = tuple(f"{each}/" for each in folders)
    return msgspec.convert(_redacted(everything, places), Recording)


def _curve(reader: RunReader, series: str, begin: float) -> list[Moment]:
    whole = reader.points_after(series, 0)
    ends = np.flatnonzero(np.diff(whole.time // _BATCH, append=np.inf)) + 1
    found = []
    first, last = 0, float(whole.time[0]) - begin
    for end in ends.tolist():
        before, last = last, round(float(whole.time[end - 1]) - begin, 2)
        steps = whole.step[first:end].astype(int).tolist()
        values = [float(f"{value:.{_PLACES}g}") for value in whole.value[first:end]]
        found.append(Moment(last, Metrics(before, last, [Points(series, steps, values)])))
        first = end
    return found


def _anywhere(event: Event) -> Event:
    """Return `event` without the machine that it happened on."""
    if isinstance(event, AttemptStarted):
        return msgspec.structs.replace(event, machine=Machine())
    return event


def _redacted(value: Any, places: tuple[str, ...]) -> Any:
    """Return `value` without the names of these folders in any text."""
    match value:
        case str():
            for place in places:
                value = value.replace(place, "")
            return value
        case dict():
            return {key: _redacted(each, places) for key, each in value.items()}
        case list() | tuple():
            return [_redacted(each, places) for each in value]
        case _:
            return value


if __name__ == "__main__":
    save(record(Path(sys.argv[1]).absolute()), Path(sys.argv[2]))
