"""Pictures and histograms as frames: made in the thread, with the standard library only."""

from __future__ import annotations

import base64
import io
import math
import struct
import sys
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traindeck_watch.link import Frame
    from traindeck_watch.watch import Watch

LARGEST_SIDE = 2048
BINS = 64
_LARGEST_SAMPLE = 2_000_000
_WAITING_BYTES = 256 * 2**20


class _Waiting:
    """Bytes of pictures that are not encoded yet: a script that logs very many loses some."""

    bytes = 0


def image(
    watch: Watch,
    series: str,
    step: int,
    value: Any,
    *,
    layout: str = "",
    caption: str = "",
) -> None:
    """Keep a picture: an array or tensor (`layout` such as CHW, guessed if empty), a PIL image, a
    matplotlib figure, or the path of a PNG file."""
    if watch.is_silent:
        return
    held = _copied(value)
    size = int(getattr(held, "nbytes", 0) or 2**20)
    if _Waiting.bytes + size > _WAITING_BYTES:
        watch.notice("Some pictures were left out: they came faster than they could be sent.")
        return
    _Waiting.bytes += size

    def encoded() -> Frame | None:
        _Waiting.bytes -= size
        try:
            png, width, height = as_png(held, layout)
        except Exception as error:
            watch.notice(f"A picture of {series} could not be kept: {error}")
            return None
        text = base64.b64encode(png).decode()
        return {
            "kind": "image",
            "series": series,
            "step": step,
            "png": text,
            "width": width,
            "height": height,
            "caption": caption,
        }

    watch.start_thread()
    watch.recorder.put(encoded)


def histogram(watch: Watch, series: str, step: int, values: Any) -> None:
    """Keep how values are distributed, in bins of one width."""
    if watch.is_silent:
        return
    held = _copied(values)

    def counted() -> Frame | None:
        try:
            edges, counts = as_histogram(held)
        except Exception as error:
            watch.notice(f"A histogram of {series} could not be kept: {error}")
            return None
        return {
            "kind": "histogram",
            "series": series,
            "step": step,
            "edges": edges,
            "counts": counts,
        }

    watch.start_thread()
    watch.recorder.put(counted)


def ready_histogram(
    watch: Watch, series: str, step: int, edges: list[float], counts: list[float]
) -> None:
    """Keep a histogram that the script has counted itself."""
    if not watch.is_silent and len(edges) == len(counts) + 1:
        watch.recorder.put(
            {
                "kind": "histogram",
                "series": series,
                "step": step,
                "edges": [float(edge) for edge in edges],
                "counts": [float(count) for count in counts],
            }
        )


def _copied(value: Any) -> Any:
    """A copy that the script cannot change before the thread has it."""
    if hasattr(value, "detach"):
        return value.detach().clone()
    if hasattr(value, "savefig") and hasattr(value, "canvas"):
        file = io.BytesIO()
        value.savefig(file, format="png")
        return file.getvalue()
    if hasattr(value, "copy") and (hasattr(value, "__array__") or hasattr(value, "save")):
        return value.copy()
    return list(value) if isinstance(value, (list, tuple)) else value


def as_png(value: Any, layout: str = "") -> tuple[bytes, int, int]:
    """Return a PNG file, its width and its height. Raises ValueError for what is no picture."""
    if isinstance(value, (bytes, bytearray)):
        return _described(bytes(value))
    if isinstance(value, str):
        with open(value, "rb") as file:  # noqa: PTH123
            return _described(file.read())
    if hasattr(value, "save") and hasattr(value, "size") and hasattr(value, "mode"):
        encoded = io.BytesIO()
        if value.mode not in ("L", "RGB", "RGBA"):
            value = value.convert("RGB")
        value.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
        value.save(encoded, format="PNG")
        return _described(encoded.getvalue())
    array = _array(value)
    array = _as_hwc(array, layout)
    height, width, channels = array.shape
    shrink = math.ceil(max(height, width) / LARGEST_SIDE)
    array = array[::shrink, ::shrink]
    height, width, channels = array.shape
    return _png(array.tobytes(), width, height, channels), width, height


def _described(data: bytes) -> tuple[bytes, int, int]:
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        pil = sys.modules.get("PIL.Image")
        if pil is None:
            raise ValueError("it is no PNG file")
        return as_png(pil.open(io.BytesIO(data)))
    width, height = struct.unpack(">II", data[16:24])
    return data, width, height


def _array(value: Any) -> Any:
    """A NumPy array. NumPy is there if the script has arrays; it is never imported for us."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        raise ValueError("NumPy is not loaded")
    if hasattr(value, "detach"):
        value = value.cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        return value.numpy()
    if isinstance(value, (list, tuple)):
        return numpy.asarray([_array(part) for part in value])
    return numpy.asarray(value)


def _as_hwc(array: Any, layout: str) -> Any:
    """Bytes, as height, width and channels (1, 3 or 4). Several pictures become a grid."""
    numpy = sys.modules["numpy"]
    layout = layout.upper()
    if not layout and array.ndim not in (2, 3, 4):
        raise ValueError(f"an array of shape {array.shape} is no picture")
    if not layout:
        layout = {2: "HW", 3: "HWC", 4: "NHWC"}[array.ndim]
        if array.ndim >= 3 and array.shape[-1] not in (1, 3, 4) and array.shape[-3] in (1, 3, 4):
            layout = {3: "CHW", 4: "NCHW"}[array.ndim]
        elif array.ndim == 3 and array.shape[-1] not in (1, 3, 4):
            raise ValueError(f"an array of shape {array.shape} is no picture")
    if len(layout) != array.ndim or not set(layout) <= set("NCHW"):
        raise ValueError(f"an array of shape {array.shape} is no picture")
    if "C" not in layout:
        array, layout = array[..., None], layout + "C"
    if "N" not in layout:
        array, layout = array[None], "N" + layout
    array = array.transpose([layout.index(axis) for axis in "NHWC"])
    if array.dtype != numpy.uint8:
        array = array.astype(numpy.float64)
        if array.dtype.kind == "f" and array.size:
            largest = numpy.nanmax(array)
            array = array * 255.0 if largest <= 1.0 else array
        array = numpy.nan_to_num(array).clip(0, 255).astype(numpy.uint8)
    if array.shape[-1] == 2 or array.shape[-1] > 4:
        array = array[..., :1]
    return numpy.ascontiguousarray(_grid(array))


def _grid(array: Any) -> Any:
    """Pictures side by side, in a nearly square grid."""
    numpy = sys.modules["numpy"]
    count, height, width, channels = array.shape
    if count == 1:
        return array[0]
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    whole = numpy.zeros((rows * columns, height, width, channels), dtype=array.dtype)
    whole[:count] = array
    whole = whole.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return whole.reshape(rows * height, columns * width, channels)


def _png(data: bytes, width: int, height: int, channels: int) -> bytes:
    colour = {1: 0, 3: 2, 4: 6}[channels]
    row = width * channels
    lines = b"".join(b"\0" + data[y * row : (y + 1) * row] for y in range(height))

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 6)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def as_histogram(values: Any) -> tuple[list[float], list[float]]:
    """Return the edges of the bins (one more than counts) and the counts of finite values."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        numbers = [float(value) for value in values if math.isfinite(float(value))]
        low, high = (min(numbers), max(numbers)) if numbers else (0.0, 1.0)
        width = (high - low) / BINS or 1.0
        counts = [0.0] * BINS
        for number in numbers:
            counts[min(BINS - 1, int((number - low) / width))] += 1
        return [low + place * width for place in range(BINS + 1)], counts
    array = _array(values).reshape(-1).astype(numpy.float64)
    if array.size > _LARGEST_SAMPLE:
        array = array[:: array.size // _LARGEST_SAMPLE + 1]
    counts, edges = numpy.histogram(array[numpy.isfinite(array)], bins=BINS)
    return edges.tolist(), counts.astype(float).tolist()
