"""Collects what a failed or unhealthy run leaves, from its folder alone, into a failure file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from engine.cases import reproduction
from engine.cases.case_file import NAME, CaseWriter
from engine.cases.evidence import Evidence, Kind, read_evidence
from engine.facts import run_facts
from engine.files.atomic_file import write_atomically
from engine.files.regular_file import open_regular, read_regular
from engine.messages.events import (
    AttemptStarted,
    Event,
    HistogramLogged,
    ImageLogged,
    Progress,
    RunEnded,
    Trouble,
    WorkerFailed,
)
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store.store_reader import RunReader, StoredEvent
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import read_spec

LAST_SECONDS = 600.0
"""The time before the end of which every point is kept."""

MOST_POINTS = 4_000
"""Points of a series, the newest ones."""

_MOST_OF_ALL = 200_000
_MOST_EVENTS = 20_000
_MOST_LOGS = 64
_MOST_RANKS = 64
_LOG_BYTES = 150_000
_ALL_LOG_BYTES = 1_500_000
_FACT_BYTES = 400_000


class Points(NamedTuple):
    """The newest points of one series: arrays of little-endian 64-bit numbers."""

    series: str
    steps: bytes
    times: bytes
    values: bytes


class _Run(NamedTuple):
    folder: Path
    spec: RunSpec
    status: RunStatus
    events: Sequence[StoredEvent]
    """The events of the last attempt."""

    ended: RunEnded
    is_hung: bool
    evidence: Evidence | None


def write_case(folder: Path, secrets: Iterable[str] = ()) -> Path | None:
    """Write the failure file of the run in `folder`, which is over; return it.

    None: the run was healthy. `secrets`: values that no file may hold. Raises OSError,
    sqlite3.Error, UnreadableSpec.
    """
    with RunReader(folder) as reader:
        run = _read(folder, reader)
        if run is None:
            return None
        content = _put_together(run, reader, CaseWriter(secrets))
    write_atomically(folder / NAME, content, mode=0o600)
    return folder / NAME


def _read(folder: Path, reader: RunReader) -> _Run | None:
    """Return what decides about the case; None: the run has not ended, or was healthy."""
    events = _last_attempt(reader)
    ended = next((e.event for e in reversed(events) if isinstance(e.event, RunEnded)), None)
    if ended is None:
        return None
    troubles = [e.event for e in events if isinstance(e.event, Trouble) and e.event.kind == "hang"]
    is_hung = bool(troubles and troubles[-1].raised)
    status = reader.status()
    is_unhealthy = is_hung or (status.not_finite_since >= 0 and ended.state != RunState.FAILED)
    if ended.state != RunState.FAILED and not is_unhealthy:
        return None
    ranks = [ended.failure.rank] if ended.failure else []
    ranks += [e.event.rank for e in events if isinstance(e.event, WorkerFailed)]
    ranks += range(_MOST_RANKS)
    kept = (read_evidence(folder, rank, status.attempt) for rank in dict.fromkeys(ranks))
    usual = (each for each in kept if each and (is_hung or each.kind != Kind.HANG))
    evidence = next(usual, None)
    return _Run(folder, read_spec(folder), status, events, ended, is_hung, evidence)


def _last_attempt(reader: RunReader) -> list[StoredEvent]:
    found: list[StoredEvent] = []
    last = reader.last_seq()
    for stored in reader.events_after(max(0, last - _MOST_EVENTS)):
        if isinstance(stored.event, AttemptStarted):
            found.clear()
        if not isinstance(stored.event, ImageLogged | HistogramLogged):
            found.append(stored)
    return found


def _put_together(run: _Run, reader: RunReader, writer: CaseWriter) -> bytes:
    """Return the file. What is told first has room first."""
    writer.add_text("failure.txt", _in_words(run))
    writer.add_value("run/spec.json", run.spec)
    writer.add_value("run/events.msgpack", list(_events(run)))
    for place, code in reproduction.code_of(run.folder):
        writer.add_code(f"run/modules/{place}" if place else "run/recipe.py", code)
    reproduction.add_to(writer, run.folder, run.spec, run.status, run.evidence, is_hung=run.is_hung)
    for name, body in _logs(run.folder, writer):
        writer.add_text(f"run/logs/{name}", body)
    for name, body in _facts(run.folder, run.status.attempt):
        place = f"run/{run_facts.FOLDER}/{name}"
        if name.endswith(".json"):  # as a value it stays one, whatever is hidden in it
            writer.add_value(place, _decoded(body))
        else:
            writer.add_text(place, body)
    writer.add_value("run/points.msgpack", list(_points(reader)))
    reproduction.add_tensors(writer, run.folder, run.evidence)
    name = run.spec.name or Path(run.spec.recipe).stem
    return writer.finish(
        run=run.folder.name,
        title=writer.clean(name),
        state=run.ended.state,
        reason=writer.clean(run.ended.reason),
        written=time.time(),
    )


def _events(run: _Run) -> Iterator[tuple[float, Event]]:
    """Yield the events of the attempt, with the progress at its end, which is none of them."""
    status = run.status
    for stored in run.events:
        if stored.event is run.ended:
            speed = status.samples_per_second, status.step_seconds
            yield stored.time, Progress(status.epoch, status.step, *speed, 0.0)
        yield stored.time, stored.event


def _in_words(run: _Run) -> str:
    """Return the failure for people who have the file and no Traindeck."""
    lines = [run.ended.reason]
    if (failure := run.ended.failure) is not None:
        lines += [failure.where, failure.details, "", failure.log_tail]
    for stored in run.events:
        match stored.event:
            case WorkerFailed() as report:
                lines += ["", f"Rank {report.rank}: {report.message}", report.traceback]
            case Trouble(kind="hang", raised=True) as trouble:
                lines += ["", trouble.text]
            case _:
                pass
    return "\n".join(lines)


def _logs(folder: Path, writer: CaseWriter) -> Iterator[tuple[str, str]]:
    """Yield the ends of all logs and of the stacks of all ranks; the stacks first."""
    try:
        files = sorted((folder / "logs").iterdir())
    except OSError:
        return
    files.sort(key=lambda file: file.suffix == ".log")
    most = min(_LOG_BYTES, _ALL_LOG_BYTES // max(1, min(len(files), _MOST_LOGS)))
    for file in files[:_MOST_LOGS]:
        try:
            with open_regular(file) as log:
                size = os.fstat(log.fileno()).st_size
                log.seek(max(0, size - most))
                body = log.read(most)
        except OSError as error:
            writer.left_out.append(f"logs/{file.name} cannot be read: {error}.")
            continue
        yield file.name, body.decode(errors="replace")


def _facts(folder: Path, attempt: int) -> Iterator[tuple[str, str]]:
    for file in sorted((folder / run_facts.FOLDER).glob(f"attempt-{attempt}.*")):
        try:
            yield file.name, read_regular(file, _FACT_BYTES).decode(errors="replace")
        except OSError:  # it is larger than any that we write
            continue


def _decoded(body: str) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None


def _points(reader: RunReader) -> Iterator[Points]:
    """Yield the last points of each series, within a limit for all."""
    counts = reader.counts()
    most = max(50, min(MOST_POINTS, _MOST_OF_ALL // max(1, len(counts))))
    found = {
        series: reader.points_after(series, max(0, count - most))
        for series, count in counts.items()
    }
    end = max((float(each.time[-1]) for each in found.values() if len(each.time)), default=0.0)
    left = _MOST_OF_ALL
    for series, points in found.items():
        is_last = points.time >= end - LAST_SECONDS
        is_last[-1:] = True  # the newest value of a series that has no newer one
        if (count := int(is_last.sum())) <= left:
            left -= count
            yield Points(
                series,
                points.step[is_last].astype("<i8").tobytes(),
                points.time[is_last].astype("<f8").tobytes(),
                points.value[is_last].astype("<f8").tobytes(),
            )
