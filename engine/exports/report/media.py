"""The newest images and histograms that a script has logged, inside the page itself."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from markupsafe import Markup

from engine.drawing.svg import svg
from engine.exports import run_source
from engine.exports.report import plots
from engine.exports.report.report_run import ReportRun
from engine.exports.run_source import Histogram, Image

MOST_SHOWN = 12
"""Images of a page, and histograms: one of each name."""

LARGEST_IMAGE, LARGEST_TOGETHER = 2**20, 4 * 2**20
"""Bytes of one image and of all of them: a page goes by mail."""

Logged = TypeVar("Logged", Image, Histogram)

_ENLARGED = 160
"""Pixels: a narrower image is shown as wide as that."""

_PNG = b"\x89PNG\r\n\x1a\n"


class ShownImage(NamedTuple):
    """An image of the page."""

    name: str
    words: str
    """Its name and its caption."""

    source: str
    """The content of the PNG, as an address."""

    is_small: bool


class Media(NamedTuple):
    """What the page shows of what a script has logged."""

    images: list[ShownImage]
    histograms: list[tuple[str, Markup]]
    """Title and picture."""

    left_out: str
    """A sentence; empty: nothing."""


def media(run: ReportRun, date: str) -> Media:
    """Return the newest image and histogram of each name."""
    images = [each for each in run.media if isinstance(each, Image)]
    histograms = [each for each in run.media if isinstance(each, Histogram)]
    left_out: Counter[str] = Counter()
    shown = []
    room = LARGEST_TOGETHER
    for image in _newest(images, left_out):
        png = _content(run, image, left_out)
        if len(png) > min(room, LARGEST_IMAGE):
            left_out["too large for a page"] += 1
        elif png:
            room -= len(png)
            shown.append(_shown(image, png))
    drawn = []
    for histogram in _newest(histograms, left_out):
        event = histogram.event
        title = f"{event.series}, step {event.step:,}"
        figure = plots.histogram_of(title, run.label, date, event.edges, event.counts)
        if figure is None:
            left_out["without a finite number"] += 1
        else:
            drawn.append((title, Markup(svg(figure))))
    note = ", ".join(f"{count:,} {why}" for why, count in left_out.items())
    return Media(shown, drawn, f"Left out: {note}." if note else "")


def _newest(logged: Sequence[Logged], left_out: Counter[str]) -> list[Logged]:
    """Return the newest one of each name, in the order of the names, and count the others."""
    by_name = {each.event.series: each for each in logged}
    shown = [by_name[name] for name in sorted(by_name)][:MOST_SHOWN]
    if len(logged) > len(by_name):
        left_out["older ones of the same names"] += len(logged) - len(by_name)
    if len(by_name) > len(shown):
        left_out[f"after the first {MOST_SHOWN} names"] += len(by_name) - len(shown)
    return shown


def _content(run: ReportRun, image: Image, left_out: Counter[str]) -> bytes:
    """Return the PNG; empty, and counted: there is none."""
    try:
        png = run_source.read_image(run.info.folder, image.event)
    except OSError:
        png = b""
    if not png.startswith(_PNG):
        left_out["that cannot be read"] += 1
        return b""
    return png


def _shown(image: Image, png: bytes) -> ShownImage:
    event = image.event
    name = f"{event.series}, step {event.step:,}"
    words = f"{name}: {event.caption}" if event.caption else name
    source = f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"
    return ShownImage(name, words, source, event.width < _ENLARGED)
