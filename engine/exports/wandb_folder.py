"""Writes a run as the folder of a W&B run that was offline, which `wandb sync` uploads.

The file format is written here, without the package wandb, which would start a process of its own.
Nothing is sent.
"""

from __future__ import annotations

import heapq
import json
import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

from engine.exports import run_source
from engine.exports.protobuf_wire import content, varint
from engine.exports.run_source import Point, RunSource
from engine.exports.tables import Tick
from engine.runs.run_state import RunState

PROJECT = "traindeck"
"""The project that the run has until `wandb sync --project` says another one."""

_MAGIC = struct.pack("<4sHB", b":W&B", 0xBEE1, 0)
_OLDEST_READER = "0.12.0"
_BLOCK, _HEAD = 32_768, struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_ROWS_PER_TICK = 1000


def write_wandb(parent: Path, source: RunSource, tick: Tick) -> Path:
    """Write the folder of the run into `parent`, and return it. Raises OSError, sqlite3.Error."""
    info = source.info
    begin = info.status.started or time.time()
    run_id = f"traindeck-{info.id}"
    stamp = time.strftime("%Y%m%d_%H%M%S", time.gmtime(begin))
    folder = parent / f"offline-run-{stamp}-{run_id}"
    (folder / "files").mkdir(parents=True)
    (folder / "logs").mkdir()
    with (folder / f"run-{run_id}.wandb").open("xb") as file:
        log = _Log(file)
        log.write(21, content(1, content(1, "traindeck") + content(2, _OLDEST_READER)))
        log.write(17, _run(source, run_id, begin))
        rows = 0
        for step, moment, values in _history(source):
            row = {**values, "_timestamp": moment, "_runtime": moment - begin, "_step": step}
            log.write(2, _items(row, 1) + content(2, varint(1, step)))
            rows += len(values)
            if rows >= _ROWS_PER_TICK:
                tick(rows)
                rows = 0
        tick(rows)
        log.write(3, _items(_summary(source), 1))
        seconds = int(run_source.seconds_of(info, time.time()))
        failed = info.state in (RunState.FAILED, RunState.INTERRUPTED)
        log.write(18, varint(1, int(failed)) + varint(2, seconds))
    return folder


def _run(source: RunSource, run_id: str, begin: float) -> bytes:
    info = source.info
    config: dict[str, Any] = {
        **run_source.settings_of(info.spec),
        "traindeck_strategy": info.spec.strategy,
        "traindeck_devices": list(info.spec.devices),
        "traindeck_source": run_source.source_of(info.spec),
    }
    seconds, rest = divmod(begin, 1)
    return (
        content(1, run_id)
        + content(3, PROJECT)
        + content(4, _items({"_wandb": {}, **config}, 1))
        + content(8, info.name)
        + (content(9, info.notes.note) if info.notes.note else b"")
        + b"".join(content(10, tag) for tag in info.notes.tags)
        + content(17, varint(1, int(seconds)) + varint(2, int(rest * 1e9)))
    )


def _history(source: RunSource) -> Iterator[tuple[int, float, dict[str, float]]]:
    """Yield each step with the newest time and the values of all series at it.

    W&B has one row for a step: of several values of one series there, the last one counts.
    """

    def named(series: str) -> Iterator[tuple[int, int, str, Point]]:
        for place, point in enumerate(source.points(series)):
            yield point.step, place, series, point

    merged = heapq.merge(*map(named, source.counts()), key=lambda entry: (entry[0], entry[2]))
    for step, entries in groupby(merged, key=lambda entry: entry[0]):
        values, moment = {}, 0.0
        for _, _, series, point in entries:
            values[series] = point.value
            moment = max(moment, point.time)
        yield step, moment, values


def _summary(source: RunSource) -> dict[str, Any]:
    status = source.info.status
    best = {}
    for series, figure in source.best().items():
        best[f"best/{series}"] = figure.value
        best[f"best_step/{series}"] = figure.step
    seconds = run_source.seconds_of(source.info, time.time())
    return {**source.last(), **best, "_step": status.step, "_runtime": seconds}


def _items(values: Mapping[str, Any], number: int) -> bytes:
    """Return `values` as the items of a history, a summary or a configuration.

    A name with dots stays one name: it is told as a path of one part where it may be one.
    """
    return b"".join(
        content(number, content(2, name) + content(16, json.dumps(value)))
        for name, value in values.items()
    )


class _Log:
    """Writes records in blocks of 32 KiB, each part with its length and checksum."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._place = file.write(_MAGIC)
        self._number = 0

    def write(self, field: int, body: bytes) -> None:
        """Write a record that holds one message in `field`."""
        self._number += 1
        data = varint(1, self._number) + content(field, body)
        is_first = True
        while True:
            room = _BLOCK - self._place % _BLOCK
            if room < _HEAD.size:
                self._place += self._file.write(bytes(room))
                continue
            part, data = data[: room - _HEAD.size], data[room - _HEAD.size :]
            kind = (_FIRST if data else _FULL) if is_first else _MIDDLE if data else _LAST
            check = zlib.crc32(part, zlib.crc32(bytes((kind,))))
            self._place += self._file.write(_HEAD.pack(check, len(part), kind) + part)
            is_first = False
            if not data:
                return
