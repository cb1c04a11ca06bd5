"""Reads TensorBoard logs: points, images, histograms and hyperparameters of each folder."""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from engine.exports import protobuf_wire as wire
from engine.exports.event_records import CutRecord, DamagedRecord, records
from engine.exports.protobuf_wire import DamagedMessage, Value
from engine.exports.tensorboard_events import EXACT_VALUE, METRIC_DIRECTIONS
from engine.files.regular_file import open_regular
from engine.imports.found_run import (
    LONGEST_NAME,
    MOST_POINTS,
    MOST_RUNS,
    MOST_SERIES,
    CannotImport,
    FoundHistogram,
    FoundImage,
    FoundRun,
    Progress,
    readable,
)
from engine.spec.field_info import Setting
from engine.spec.metric_direction import DIRECTIONS

KIND = "tensorboard"
MOST_FILES = 20_000
MOST_BINS = 1024
MOST_IMAGE_BYTES = 256 * 2**20
"""Bytes of the images of one run; further ones are left out."""

_DEEPEST = 20
_MARK = "tfevents"
_RECORDS_PER_TICK = 2000
_PNG = b"\x89PNG\r\n\x1a\n"
_FLOAT, _DOUBLE, _INT32, _STRING, _INT64 = 1, 2, 3, 7, 9
"""Types of tensors."""


def find_logs(folder: Path) -> dict[Path, list[Path]]:
    """Return the event files in `folder` and below, by the folder that they lie in.

    Links are not followed. Raises CannotImport and OSError.
    """
    found: dict[Path, list[Path]] = {}
    count = 0
    for here, folders, files in os.walk(folder):
        depth = len(Path(here).relative_to(folder).parts)
        if depth >= _DEEPEST:
            folders.clear()
        folders.sort()
        events = sorted(name for name in files if _MARK in name)
        if events:
            found[Path(here)] = [Path(here) / name for name in events]
        count += len(events)
        if count > MOST_FILES or len(found) > MOST_RUNS:
            raise CannotImport(
                f"{folder} holds more than {MOST_RUNS:,} logs or {MOST_FILES:,} event files: "
                "import parts of it."
            )
    return found


def is_event_file(path: Path) -> bool:
    """Whether the name is that of an event file."""
    return _MARK in path.name


def read_log(name: str, files: list[Path], source: Path, progress: Progress) -> FoundRun:
    """Return the run in the event `files` of one folder. Raises CannotImport, OSError."""
    run = FoundRun(name, KIND, str(source))
    reader = _LogReader(run)
    total = sum(file.stat().st_size for file in files)
    before = 0
    for path in files:
        with open_regular(path, follow_links=True) as file:
            try:
                for number, data in enumerate(records(file)):
                    reader.read(data)
                    if not number % _RECORDS_PER_TICK:
                        progress(before + file.tell(), total)
                        if reader.points > MOST_POINTS:
                            raise CannotImport(f"{source} has more than {MOST_POINTS:,} points.")
            except CutRecord:
                run.remark(
                    f"{path.name} ends within a record: its program writes it, or was killed."
                )
            except (DamagedRecord, DamagedMessage) as error:
                run.remark(f"{path.name} is damaged: {error}. What follows there is left out.")
        before += path.stat().st_size
        progress(min(before, total), total)
    reader.finish()
    return run


class _Tensor(NamedTuple):
    kind: int
    shape: list[int]
    content: bytes
    numbers: list[float]
    texts: list[bytes]


class _LogReader:
    """Adds what the records of one log hold to a run."""

    def __init__(self, run: FoundRun) -> None:
        self._run = run
        self._plugins: dict[str, str] = {}
        """By tag: only the first value of a tag names its plugin."""

        self._image_bytes = 0
        self._left_out: dict[str, None] = {}
        self.points = 0

    def read(self, data: bytes) -> None:
        """Read one event. Raises DamagedMessage and CannotImport."""
        time, step = 0.0, 0
        summary: memoryview | None = None
        restarts = False
        for number, kind, value in wire.fields(data):
            if number == 1:
                time = wire.number(kind, value)
            elif number == 2:
                step = wire.signed(value)
            elif number == 5:
                summary = wire.body(value)
            elif number == 7:
                restarts = any(n == 1 and v == 1 for n, _, v in wire.fields(wire.body(value)))
        if restarts:
            self._drop_from(step)
        if summary is not None:
            for number, _, value in wire.fields(summary):
                if number == 1:
                    self._read_value(wire.body(value), step, time)

    def finish(self) -> None:
        """Say what was left out."""
        if self._left_out:
            names = list(self._left_out)
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            shown = ", ".join(names[:5])
            self._run.remark(f"Neither points, images nor histograms, left out: {shown}{more}.")

    def _read_value(self, message: memoryview, step: int, time: float) -> None:
        tag, plugin = "", ""
        plugin_content = memoryview(b"")
        value: float | None = None
        exact: float | None = None
        histogram = image = tensor = None
        for number, kind, field in wire.fields(message):
            if number == 1:
                tag = wire.text(field)
            elif number == 2:
                value = wire.number(kind, field)
            elif number == 4:
                image = wire.body(field)
            elif number == 5:
                histogram = wire.body(field)
            elif number == 8:
                tensor = _tensor(wire.body(field))
            elif number == 9:
                plugin, plugin_content = _plugin(wire.body(field))
            elif number == EXACT_VALUE:
                exact = wire.number(kind, field)
        tag = readable(tag)
        if plugin:
            self._plugins.setdefault(tag, plugin)
        plugin = self._plugins.get(tag, "")
        if plugin == "hparams":
            self._read_settings(plugin_content)
            return
        if tag == METRIC_DIRECTIONS and tensor is not None:
            self._read_directions(tensor)
            return
        if (
            tensor is not None
            and plugin in ("scalars", "")
            and (found := _scalar(tensor)) is not None
        ):
            value = found
        if value is not None:
            self._run.add(tag, step, time, value if exact is None else exact)
            self.points += 1
        elif image is not None:
            self._add_image(tag, step, time, _encoded_image(image))
        elif tensor is not None and plugin == "images":
            for place, encoded in enumerate(tensor.texts[2:]):
                name = f"{tag}/{place}" if len(tensor.texts) > 3 else tag
                self._add_image(name, step, time, encoded)
        elif histogram is not None:
            self._add_histogram(tag, step, time, *_legacy_histogram(histogram))
        elif tensor is not None and plugin == "histograms":
            self._add_histogram(tag, step, time, *_tensor_histogram(tensor))
        else:
            self._left_out[tag] = None

    def _read_settings(self, content: memoryview) -> None:
        for number, _, start in wire.fields(content):
            if number != 3:
                continue
            for field, _, entry in wire.fields(wire.body(start)):
                if field == 1:
                    parts = {n: v for n, _, v in wire.fields(wire.body(entry))}
                    setting = _plain_value(wire.body(parts.get(2, b"")))
                    if setting is not None:
                        self._run.set(wire.text(parts.get(1, b"")), setting)

    def _read_directions(self, tensor: _Tensor) -> None:
        """Take over which way each metric of the run was better: its name may not tell it."""
        text = b"".join(tensor.texts[:1]).decode("utf-8", "replace")
        for line in text.splitlines()[:MOST_SERIES]:
            name, _, direction = line.rpartition(": ")
            if name and direction in DIRECTIONS:
                self._run.directions[readable(name)[:LONGEST_NAME]] = direction

    def _add_image(self, tag: str, step: int, time: float, png: bytes) -> None:
        if not png.startswith(_PNG) or len(png) < 24:
            self._run.remark("Images that are no PNG are left out.")
            return
        if self._image_bytes + len(png) > MOST_IMAGE_BYTES:
            self._run.remark(
                f"Images after the first {MOST_IMAGE_BYTES // 2**20} MiB are left out."
            )
            return
        if step < 0:
            return
        self._image_bytes += len(png)
        width, height = struct.unpack(">II", png[16:24])
        size = min(width, 2**31), min(height, 2**31)
        self._run.images.append(FoundImage(tag, step, time, png, size))

    def _add_histogram(
        self, tag: str, step: int, time: float, edges: list[float], counts: list[float]
    ) -> None:
        while len(counts) > MOST_BINS:  # two neighbours become one
            if len(counts) % 2:
                edges, counts = [*edges, edges[-1]], [*counts, 0.0]
            edges, counts = (
                edges[::2],
                [a + b for a, b in zip(counts[::2], counts[1::2], strict=True)],
            )
        is_whole = bool(counts) and all(a <= b for a, b in itertools.pairwise(edges))
        if is_whole and step >= 0:
            self._run.histograms.append(FoundHistogram(tag, step, time, edges, counts))
        else:
            self._run.remark(f"Histograms without bins are left out: {tag}.")

    def _drop_from(self, step: int) -> None:
        """A program has begun again at `step`: what it has written from there on is void."""
        run = self._run
        for columns in run.series.values():
            columns.drop_from(step)
        run.images = [each for each in run.images if each.step < step]
        run.histograms = [each for each in run.histograms if each.step < step]
        self._image_bytes = sum(len(each.png) for each in run.images)
        self.points = run.points


def _plugin(metadata: memoryview) -> tuple[str, memoryview]:
    for number, _, value in wire.fields(metadata):
        if number == 1:
            parts = {n: v for n, _, v in wire.fields(wire.body(value))}
            return wire.text(parts.get(1, b"")), wire.body(parts.get(2, b""))
    return "", memoryview(b"")


def _plain_value(message: memoryview) -> Setting | None:
    """Return the bool, number or text of a `google.protobuf.Value`."""
    for number, kind, value in wire.fields(message):
        if number == 2:
            found = wire.number(kind, value)
            is_whole = found.is_integer() and abs(found) < 2**53
            return int(found) if is_whole else found
        if number == 3:
            return wire.text(value)
        if number == 4:
            return bool(value)
    return None


def _tensor(message: memoryview) -> _Tensor:
    kind, shape, content = 0, [], b""
    numbers: list[float] = []
    texts: list[bytes] = []
    for number, type_, value in wire.fields(message):
        if number == 1:
            kind = wire.signed(value)
        elif number == 2:
            shape = list(_shape(wire.body(value)))
        elif number == 4:
            content = bytes(wire.body(value))
        elif number == 5:
            numbers += _floats(type_, value)
        elif number == 6:
            numbers += wire.many(type_, value)
        elif number == 8:
            texts.append(bytes(wire.body(value)))
    return _Tensor(kind, shape, content, numbers, texts)


def _floats(kind: int, value: Value) -> list[float]:
    if kind != wire.BYTES:
        return [wire.number(kind, value)]
    packed = wire.body(value)
    if len(packed) % 4:
        raise DamagedMessage("a list of numbers has a part of a number")
    return list(struct.unpack(f"<{len(packed) // 4}f", packed))


def _shape(message: memoryview) -> Iterator[int]:
    for number, _, value in wire.fields(message):
        if number == 2:
            sizes = [wire.signed(v) for n, _, v in wire.fields(wire.body(value)) if n == 1]
            yield sizes[0] if sizes else 0


def _values(tensor: _Tensor) -> list[float]:
    letter = {_FLOAT: "f", _DOUBLE: "d", _INT32: "i", _INT64: "q"}.get(tensor.kind)
    if letter is None:
        return []
    if tensor.numbers:
        return tensor.numbers
    size = struct.calcsize(letter)
    if len(tensor.content) % size:
        raise DamagedMessage("a tensor has a part of a number")
    found = struct.unpack(f"<{len(tensor.content) // size}{letter}", tensor.content)
    return [float(each) for each in found]


def _scalar(tensor: _Tensor) -> float | None:
    if any(size != 1 for size in tensor.shape):
        return None
    values = _values(tensor)
    return values[0] if len(values) == 1 else None


def _encoded_image(message: memoryview) -> bytes:
    found = [value for number, _, value in wire.fields(message) if number == 4]
    return bytes(wire.body(found[0])) if found else b""


def _legacy_histogram(message: memoryview) -> tuple[list[float], list[float]]:
    low = high = 0.0
    limits: list[float] = []
    counts: list[float] = []
    for number, kind, value in wire.fields(message):
        if number == 1:
            low = wire.number(kind, value)
        elif number == 2:
            high = wire.number(kind, value)
        elif number == 6:
            limits += wire.many(kind, value)
        elif number == 7:
            counts += wire.many(kind, value)
    if len(limits) != len(counts) or not limits:
        return [], []
    if counts[0]:
        limits, counts = [min(low, limits[0]), *limits], [0.0, *counts]
    # The outermost limits may be the largest doubles: the values themselves end before.
    return [min(max(limit, low), high) for limit in limits], counts[1:]


def _tensor_histogram(tensor: _Tensor) -> tuple[list[float], list[float]]:
    """Return the bins of a tensor of shape (bins, 3): left and right edge, count."""
    values = _values(tensor)
    if not values or len(values) % 3:
        return [], []
    return [*values[0::3], values[-2]], values[2::3]
