"""The messages of TensorBoard's event files: points, images, histograms and hyperparameters."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Mapping, Sequence

from google.protobuf.struct_pb2 import Value
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.hparams.api_pb2 import STATUS_SUCCESS
from tensorboard.plugins.hparams.plugin_data_pb2 import (
    HParamsPluginData,
    SessionEndInfo,
    SessionStartInfo,
)

EXACT_VALUE = 5001
"""The field of a value that holds a point with all its bits, where TensorBoard's own field, a
32-bit float, does not. TensorBoard leaves it out; our import reads it."""

METRIC_DIRECTIONS = "traindeck/metric_directions"
"""The tag of a text that tells which way each metric is better, one in a line: `mae: min`.
TensorBoard shows it among its texts; our import reads it."""

_FILE_VERSION = "brain.Event:2"
_RGBA = 4
_EXACT_KEY = bytes((0xC9, 0xB8, 0x02))
"""The number and the type of EXACT_VALUE in a file; TensorBoard's message lacks the field."""


def first_event(time: float) -> Event:
    """Return the event with which a file begins."""
    return Event(wall_time=time, file_version=_FILE_VERSION)


def purge_event(time: float, step: int) -> Event:
    """Return the event that lets a reader drop all it has read from `step` on."""
    return Event(wall_time=time, step=step, session_log=SessionLog(status=SessionLog.START))


def scalar_event(tag: str, step: int, time: float, value: float) -> Event:
    """Return the event of a point."""
    point = Summary.Value(tag=_valid(tag), simple_value=value)
    if point.simple_value != value and not math.isnan(value):
        point.MergeFromString(_EXACT_KEY + struct.pack("<d", value))
    return _summary(step, time, point)


def image_event(tag: str, step: int, time: float, image: bytes, size: tuple[int, int]) -> Event:
    """Return the event of an image, the content of a PNG; `size` is its width and height."""
    width, height = size
    shown = Summary.Image(height=height, width=width, colorspace=_RGBA, encoded_image_string=image)
    return _summary(step, time, Summary.Value(tag=_valid(tag), image=shown))


def histogram_event(
    tag: str, step: int, time: float, edges: Sequence[float], counts: Sequence[float]
) -> Event:
    """Return the event of a histogram whose bins lie between `edges`, one more than `counts`."""
    middles = [(low + high) / 2 for low, high in itertools.pairwise(edges)]
    weighted = list(zip(middles, counts, strict=False))
    histogram = HistogramProto(
        min=edges[0],
        max=edges[-1],
        # Sums that overflow or are undefined stay floats: the outermost edges may be infinite.
        num=sum(counts),
        sum=sum(middle * count for middle, count in weighted),
        sum_squares=sum(middle * middle * count for middle, count in weighted),
        # A bucket is told by its upper limit: an empty one in front tells where the first begins.
        bucket_limit=edges,
        bucket=[0.0, *counts],
    )
    return _summary(step, time, Summary.Value(tag=_valid(tag), histo=histogram))


def settings_event(time: float, settings: Mapping[str, bool | float | str], group: str) -> Event:
    """Return the event that tells the hyperparameters of a run."""
    values = {_valid(name): _plain_value(value) for name, value in settings.items()}
    start = SessionStartInfo(hparams=values, group_name=_valid(group), start_time_secs=time)
    return _hparams("session_start_info", time, HParamsPluginData(session_start_info=start))


def end_event(time: float) -> Event:
    """Return the event that tells that the run has finished."""
    end = SessionEndInfo(status=STATUS_SUCCESS, end_time_secs=time)
    return _hparams("session_end_info", time, HParamsPluginData(session_end_info=end))


def directions_event(time: float, directions: Mapping[str, str]) -> Event:
    """Return the event of the text that tells which way each metric is better."""
    lines = "\n".join(f"{name}: {direction}" for name, direction in sorted(directions.items()))
    text = TensorProto(dtype=DT_STRING, string_val=[lines.encode(errors="replace")])
    text.tensor_shape.SetInParent()  # one text, not a list of an unknown length
    value = Summary.Value(tag=METRIC_DIRECTIONS, metadata=_plugin("text", b""), tensor=text)
    return _summary(0, time, value)


def _plugin(name: str, content: bytes) -> SummaryMetadata:
    """Return the metadata that tell which part of TensorBoard shows a value."""
    return SummaryMetadata(
        plugin_data=SummaryMetadata.PluginData(plugin_name=name, content=content)
    )


def _plain_value(value: bool | float | str) -> Value:
    if isinstance(value, bool):
        return Value(bool_value=value)
    if isinstance(value, str):
        return Value(string_value=_valid(value))
    return Value(number_value=value)


def _hparams(name: str, time: float, data: HParamsPluginData) -> Event:
    metadata = _plugin("hparams", data.SerializeToString(deterministic=True))
    return _summary(0, time, Summary.Value(tag=f"_hparams_/{name}", metadata=metadata))


def _summary(step: int, time: float, value: Summary.Value) -> Event:
    return Event(wall_time=time, step=step, summary=Summary(value=[value]))


def _valid(text: str) -> str:
    """Return a text without halves of characters, as file names may have them."""
    return text.encode(errors="replace").decode()
