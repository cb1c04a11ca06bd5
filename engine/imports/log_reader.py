"""Adds what the events of a TensorBoard log hold to a run: points, images, histograms, settings."""

from __future__ import annotations

import itertools
import math
import struct
from typing import TypeVar

from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Value
from google.protobuf.unknown_fields import UnknownFieldSet
from tensorboard.compat.proto import types_pb2
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from engine.exports.tensorboard_events import EXACT_VALUE, METRIC_DIRECTIONS
from engine.imports.event_records import DamagedRecord
from engine.imports.found_run import (
    EARLIEST_MOMENT,
    LARGEST_STEP,
    LONGEST_NAME,
    MOST_SERIES,
    UNDRAWABLE_STEP,
    FoundHistogram,
    FoundImage,
    FoundRun,
    readable,
    seconds_of,
)
from engine.spec.field_info import Setting
from engine.spec.metric_direction import DIRECTIONS

MOST_BINS = 1024
MOST_IMAGE_BYTES = 256 * 2**20
"""Bytes of the images of one run; further ones are left out."""

_Media = TypeVar("_Media", FoundImage, FoundHistogram)

_FIXED64 = 1
"""The type on the wire of a double."""

_PNG = b"\x89PNG\r\n\x1a\n"
_NUMBERS = {
    types_pb2.DT_FLOAT: ("f", "float_val"),
    types_pb2.DT_DOUBLE: ("d", "double_val"),
    types_pb2.DT_HALF: ("e", "half_val"),
    types_pb2.DT_BFLOAT16: ("H", "half_val"),
    types_pb2.DT_INT8: ("b", "int_val"),
    types_pb2.DT_INT16: ("h", "int_val"),
    types_pb2.DT_INT32: ("i", "int_val"),
    types_pb2.DT_INT64: ("q", "int64_val"),
    types_pb2.DT_UINT8: ("B", "int_val"),
    types_pb2.DT_UINT16: ("H", "int_val"),
    types_pb2.DT_UINT32: ("I", "uint32_val"),
    types_pb2.DT_UINT64: ("Q", "uint64_val"),
    types_pb2.DT_BOOL: ("?", "bool_val"),
}
"""By type of a tensor: the letter of its packed numbers, and the field of those that are not."""


class LogReader:
    """Adds what the events of one log hold to a run."""

    def __init__(self, run: FoundRun) -> None:
        self._run = run
        self._is_ours = self._has_started = False
        self._before_file: dict[str, int] = {}
        """How many points of each series the files before this one held."""

        self._media_before_file = 0, 0
        self._highest: dict[str, int] = {}
        """The highest step of each series in the files before this one."""

        self._last_time = 0.0
        self._written = 0.0
        self._plugins: dict[str, str] = {}
        """By tag: only the first value of a tag names its plugin."""

        self._image_bytes = 0
        self._left_out: dict[str, None] = {}
        self.points = 0

    def begin_file(self, written: float, *, is_ours: bool) -> None:
        """Go on with the next file. `written`: when it was written, in seconds since 1970.

        A file of ours tells readers to drop points of its own; in another one, the first start of
        a session drops only those of earlier files.
        """
        self._end_file()
        self._written, self._is_ours, self._has_started = written, is_ours, is_ours
        self._before_file = {name: len(each.steps) for name, each in self._run.series.items()}
        self._media_before_file = len(self._run.images), len(self._run.histograms)

    def read(self, event: Event) -> None:
        """Add one event. Raises DamagedRecord and CannotImport."""
        if event.session_log.status == SessionLog.START:
            self._drop_from(event.step)
        time = seconds_of(event.wall_time)
        if time is None or time < EARLIEST_MOMENT:
            self._run.remark("Times that are no dates are replaced by that of the file.")
            time = self._written
        for value in event.summary.value:
            self._read_value(value, event.step, time)

    def finish(self) -> None:
        """Leave out what the last file has trained again, and say what was left out."""
        self._end_file()
        self._run.series = {n: each for n, each in self._run.series.items() if each.steps}
        self._run.finish()
        if self._left_out:
            self._run.remark(f"No number, image or histogram, left out: {_few([*self._left_out])}.")

    def _read_value(self, value: Summary.Value, step: int, time: float) -> None:
        tag = readable(value.tag)
        named = value.metadata.plugin_data.plugin_name
        if named:
            self._plugins.setdefault(tag, named)
        plugin = self._plugins.get(tag, "")
        kind = value.WhichOneof("value")
        if plugin == "hparams":
            self._read_settings(value.metadata.plugin_data.content)
        elif kind == "tensor" and tag == METRIC_DIRECTIONS:
            self._read_directions(value.tensor)
        elif (point := _point(value, plugin)) is not None:
            self._run.add(tag, step, time, point)
            self.points += 1
        elif kind == "image":
            self._add_image(tag, step, time, value.image.encoded_image_string)
        elif kind == "tensor" and plugin == "images":
            texts = value.tensor.string_val  # width, height and the images
            for place, encoded in enumerate(texts[2:]):
                name = f"{tag}/{place}" if len(texts) > 3 else tag
                self._add_image(name, step, time, encoded)
        elif kind == "histo":
            self._add_histogram(tag, step, time, *_legacy_histogram(value.histo))
        elif kind == "tensor" and plugin == "histograms":
            self._add_histogram(tag, step, time, *_tensor_histogram(value.tensor))
        else:
            self._left_out[tag] = None

    def _read_settings(self, content: bytes) -> None:
        try:
            start = HParamsPluginData.FromString(content).session_start_info
        except DecodeError:
            raise DamagedRecord("its hyperparameters cannot be read") from None
        for name, value in start.hparams.items():
            setting = _plain_value(value)
            if setting is not None:
                self._run.set(name, setting)

    def _read_directions(self, tensor: TensorProto) -> None:
        """Take over which way each metric of the run was better: its name may not tell it."""
        text = b"".join(tensor.string_val[:1]).decode("utf-8", "replace")
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
        if not 0 <= step <= LARGEST_STEP:
            self._run.leave_out(UNDRAWABLE_STEP, tag)
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
        if not is_whole:
            self._run.leave_out("a histogram without bins", tag)
        elif not 0 <= step <= LARGEST_STEP:
            self._run.leave_out(UNDRAWABLE_STEP, tag)
        else:
            self._run.histograms.append(FoundHistogram(tag, step, time, edges, counts))

    def _end_file(self) -> None:
        """Leave out what the file has trained again, if no start of a session has said so.

        It then has steps of a series once more, and was written after the earlier files: two
        programs that write at the same time are no resumed one.
        """
        run, low, first, last = self._run, LARGEST_STEP + 1, math.inf, self._last_time
        mixed: list[str] = []
        for name, columns in run.series.items():
            place = 0 if self._has_started else self._before_file.get(name, 0)
            steps, times = columns.steps[place:], columns.times[place:]
            before = self._highest.get(name, -1) if place else -1
            if steps:
                first, last = min(first, times[0]), max(last, times[-1])
                if min(steps) <= before:
                    low, mixed = min(low, min(steps)), [*mixed, name]
            self._highest[name] = max(before, max(steps, default=-1))
        is_again = bool(mixed) and not self._has_started and first >= self._last_time
        if mixed and first < self._last_time:
            run.remark(f"Files of the same time have the same steps, kept of all: {_few(mixed)}.")
        self._last_time = last
        if not is_again:
            return
        what = "a step that a later file trained again"
        for name, columns in run.series.items():
            if dropped := columns.drop_from(low, self._before_file.get(name, 0)):
                run.leave_out(what, name, dropped)
                self._highest[name] = max(columns.steps, default=-1)
        images, histograms = self._media_before_file
        media = [(each.series, each.step) for each in run.images[:images]]
        media += [(each.series, each.step) for each in run.histograms[:histograms]]
        for name, step in media:
            if step >= low:
                run.leave_out(what, name)
        run.images = _kept(run.images, images, low)
        run.histograms = _kept(run.histograms, histograms, low)
        self._image_bytes = sum(len(each.png) for each in run.images)
        self.points = run.points

    def _drop_from(self, step: int) -> None:
        """A program has begun again at `step`: what it has written from there on is void."""
        run = self._run
        for name, columns in run.series.items():
            end = len(columns.steps) if self._has_started else self._before_file.get(name, 0)
            if (dropped := columns.drop_from(step, end)) and not self._is_ours:
                run.leave_out("a step that a later session trained again", name, dropped)
        is_again, self._has_started = self._has_started or bool(self._before_file), True
        if not is_again:
            return
        run.images = [each for each in run.images if each.step < step]
        run.histograms = [each for each in run.histograms if each.step < step]
        self._image_bytes = sum(len(each.png) for each in run.images)
        self.points = run.points


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _kept(media: list[_Media], end: int, step: int) -> list[_Media]:
    """Return `media` without those of the first `end` that are at `step` or later."""
    return [each for each in media[:end] if each.step < step] + media[end:]


def _point(value: Summary.Value, plugin: str) -> float | None:
    """Return the number of a value; None if it holds none."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        for field in UnknownFieldSet(value):
            if field.field_number == EXACT_VALUE and field.wire_type == _FIXED64:
                return float(struct.unpack("<d", struct.pack("<Q", field.data))[0])
        return float(value.simple_value)
    if kind == "tensor" and plugin in ("scalars", ""):
        is_one = all(dimension.size == 1 for dimension in value.tensor.tensor_shape.dim)
        numbers = _numbers(value.tensor) if is_one else []
        return numbers[0] if len(numbers) == 1 else None
    return None


def _plain_value(value: Value) -> Setting | None:
    """Return a bool, number or text; None for what is none of these."""
    match value.WhichOneof("kind"):
        case "number_value":
            number = float(value.number_value)
            is_whole = number.is_integer() and abs(number) < 2**53
            return int(number) if is_whole else number
        case "string_value":
            return str(value.string_value)
        case "bool_value":
            return bool(value.bool_value)
        case _:
            return None


def _numbers(tensor: TensorProto) -> list[float]:
    """Return the numbers of a tensor; none of one that holds something else."""
    if tensor.dtype not in _NUMBERS:
        return []
    letter, field = _NUMBERS[tensor.dtype]
    packed = tensor.tensor_content
    if not packed and field != "half_val":
        return [float(each) for each in getattr(tensor, field)]
    if not packed:  # the bits of 16-bit floats, as whole numbers
        packed = b"".join(struct.pack("<H", bits & 0xFFFF) for bits in tensor.half_val)
    count, rest = divmod(len(packed), struct.calcsize(letter))
    if rest:
        raise DamagedRecord("a tensor has a part of a number")
    numbers = struct.unpack(f"<{count}{letter}", packed)
    if tensor.dtype == types_pb2.DT_BFLOAT16:  # the upper half of a 32-bit float
        numbers = struct.unpack(
            f"<{count}f", struct.pack(f"<{count}I", *(n << 16 for n in numbers))
        )
    return [float(each) for each in numbers]


def _legacy_histogram(histogram: HistogramProto) -> tuple[list[float], list[float]]:
    limits, counts = list(histogram.bucket_limit), list(histogram.bucket)
    if len(limits) != len(counts) or not limits:
        return [], []
    low, high = histogram.min, histogram.max
    if counts[0]:
        limits, counts = [min(low, limits[0]), *limits], [0.0, *counts]
    # The outermost limits may be the largest doubles: the values themselves end before.
    return [min(max(limit, low), high) for limit in limits], counts[1:]


def _tensor_histogram(tensor: TensorProto) -> tuple[list[float], list[float]]:
    """Return the bins of a tensor of shape (bins, 3): left and right edge, count."""
    values = _numbers(tensor)
    if not values or len(values) % 3:
        return [], []
    return [*values[0::3], values[-2]], values[2::3]
