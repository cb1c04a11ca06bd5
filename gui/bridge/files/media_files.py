"""Reads the images of a run: they come from its script, so size, place and format are limited."""

from __future__ import annotations

import struct
from collections import OrderedDict
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from PySide6.QtCore import QBuffer, QObject, QSize, Qt, Signal
from PySide6.QtGui import QImage, QImageReader

from engine.interface.values import NoAnswer
from gui.bridge.background import Background
from gui.bridge.machines.machines import UNREADABLE, Machines

if TYPE_CHECKING:
    from engine.interface.engine import Engine

FOLDER = "media"
"""The folder of the images in the folder of a run."""

LONGEST_EDGE = 16_384
MOST_PIXELS = 32 * 2**20
"""Four bytes each: at most 128 MiB while an image is decoded."""

PREVIEW_EDGE = 512
"""Pixels of the longer edge of a preview."""

_MOST_AT_ONCE = 2
"""Images read at one time: the threads serve commands too."""

_CACHE_BYTES = 64 * 2**20


class UnfitImage(Exception):
    """The image cannot be shown; the text is a sentence."""


class MediaFiles(QObject):
    """Reads previews of the images of one run in the background, and remembers the newest ones."""

    preview = Signal(str, object)
    """File of an image, and its QImage, or a sentence why it cannot be shown."""

    full = Signal(str, object)
    """File of an image, and its QImage in full size, or a sentence: the answer to `want_full`."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._run_id: str | None = None
        self._wanted: list[str] = []
        self._running: set[tuple[str, str]] = set()
        self._cache: OrderedDict[str, QImage | str] = OrderedDict()

    def watch(self, run_id: str | None) -> None:
        """Read images of the run `run_id` from now on."""
        self._run_id = run_id
        self._wanted.clear()
        self._cache.clear()

    def known(self, file: str) -> QImage | str | None:
        """Return the preview of `file` if it is in memory, or why there is none; else None."""
        found = self._cache.get(file)
        if found is not None:
            self._cache.move_to_end(file)
        return found

    def want(self, files: list[str]) -> None:
        """Read the previews of `files`, the first one first, and no others that were wanted before.
        Emits `preview` for each."""
        self._wanted = [file for file in reversed(files) if file not in self._cache]
        self._read_next()

    def want_full(self, file: str) -> None:
        """Read the image in `file` in its full size. Emits `full`."""
        if self._run_id is not None:
            work = partial(_image_or_problem, self._background.machines, self._run_id, file, 0)
            self._background.run(work, partial(self.full.emit, file))

    def _read_next(self) -> None:
        while self._run_id is not None and self._wanted and len(self._running) < _MOST_AT_ONCE:
            job = self._run_id, self._wanted.pop()
            if job not in self._running:
                self._running.add(job)
                work = partial(_image_or_problem, self._background.machines, *job, PREVIEW_EDGE)
                self._background.run(work, partial(self._show, job), partial(self._failed, job))

    def _show(self, job: tuple[str, str], found: QImage | str) -> None:
        self._running.discard(job)
        if job[0] == self._run_id:
            self._cache[job[1]] = found
            while len(self._cache) > 1 and self._cache_bytes() > _CACHE_BYTES:
                self._cache.popitem(last=False)
            self.preview.emit(job[1], found)
        self._read_next()

    def _failed(self, job: tuple[str, str], error: Exception) -> None:
        self._running.discard(job)
        raise error

    def _cache_bytes(self) -> int:
        return sum(each.sizeInBytes() for each in self._cache.values() if isinstance(each, QImage))


def read_image(engine: Engine, run: str, file: str, longest_edge: int = 0) -> QImage:
    """Return the PNG `file` (`media/…`) of a run, scaled down to `longest_edge`.

    0: in its full size. Raises UnfitImage.
    """
    name = PurePosixPath(file)
    if name.parts[:1] != (FOLDER,) or ".." in name.parts or "\0" in file:
        raise UnfitImage(f"{file} is not in the folder of images of this run.")
    try:
        content = engine.read_media(run, file)
    except FileNotFoundError as error:
        raise UnfitImage(f"{file} is not there any more.") from error
    except (*UNREADABLE, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise UnfitImage(f"{file} cannot be read: {why}.") from error
    return decode(content, file, longest_edge)


def decode(content: bytes, file: str, longest_edge: int = 0) -> QImage:
    """Return the image of a PNG; see `read_image`. Raises UnfitImage."""
    size = _png_size(content)
    if size.isEmpty():
        raise UnfitImage(f"{file} is no PNG image.")
    edge = max(size.width(), size.height())
    if edge > LONGEST_EDGE or size.width() * size.height() > MOST_PIXELS:
        text = f"{file} is too large to be shown: {size.width():,} × {size.height():,} pixels."
        raise UnfitImage(text)
    buffer = QBuffer()
    buffer.setData(content)
    buffer.open(QBuffer.OpenModeFlag.ReadOnly)
    reader = QImageReader(buffer, b"png")  # never another format, whatever the content is
    if 0 < longest_edge < edge:
        scaled = size.scaled(longest_edge, longest_edge, Qt.AspectRatioMode.KeepAspectRatio)
        reader.setScaledSize(scaled.expandedTo(QSize(1, 1)))
    image = reader.read()
    if image.isNull():
        raise UnfitImage(f"{file} is damaged: {reader.errorString()}.")
    return image


def _png_size(content: bytes) -> QSize:
    """Return the size that the header of a PNG tells; empty: it is no PNG."""
    begin, kind = content[:8], content[12:16]
    if begin != b"\x89PNG\r\n\x1a\n" or kind != b"IHDR" or len(content) < 24:
        return QSize()
    width, height = struct.unpack(">II", content[16:24])
    most = 2**31 - 1  # a number of Qt
    return QSize(min(width, most), min(height, most))


def _image_or_problem(
    machines: Machines, run_id: str, file: str, longest_edge: int
) -> QImage | str:
    try:
        return read_image(*machines.engine_of(run_id), file, longest_edge)
    except (UnfitImage, NoAnswer) as error:
        return str(error)
