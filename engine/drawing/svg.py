"""Writes a figure as SVG that every reader draws alike: lines that end at the edges by themselves,
and texts that are anchored where they must not move if a reader has another font."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape as html_escape
from itertools import pairwise

from engine.drawing.figure import Figure, FigureLegend, FigureLine, FigureMark

_FONT = "Inter, 'DejaVu Sans', Arial, Helvetica, sans-serif"
_SIZE, _SMALL = 12.0, 11.0
_MARGIN = 14.0
_LINE = 18.0
"""Height of a line of text."""

_WIDEST_LETTER = 0.62
"""Width of a letter as a part of the font size: enough room for most texts in most fonts."""

_SAMPLE = 18.0
"""Length of a dashed line in the legend, and from a dot to the next name."""

_STAR = tuple(
    (radius * math.sin(number * math.pi / 5), -radius * math.cos(number * math.pi / 5))
    for number, radius in enumerate((7.0, 2.8) * 5)
)
_TICK = 9.0
"""Height of a mark at the lower edge."""

_NOT_XML = re.compile("[^\\t\\n\\r -\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""Characters that make a document unreadable."""

Point = tuple[float, float]


def svg(figure: Figure) -> str:
    """Return the document."""
    rows = _legend_rows(figure)
    frame = _Frame(figure, len(rows))
    colours = figure.colours
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(figure.width)}"'
        f' height="{_n(figure.height)}" viewBox="0 0 {_n(figure.width)} {_n(figure.height)}"'
        f' font-family="{_FONT}">',
        f"<title>{_escape(figure.title)} – {_escape(figure.source)}</title>",
        f'<rect width="{_n(figure.width)}" height="{_n(figure.height)}"'
        f' fill="{colours.background}"/>',
        _text(_MARGIN, _MARGIN + _SIZE, figure.title, colours.text, 14.0, weight=600),
        _text(_MARGIN, _MARGIN + _SIZE + _LINE, figure.source, colours.muted),
        _text(figure.width - _MARGIN, _MARGIN + _SIZE, figure.date, colours.muted, anchor="end"),
        *_legend(rows, colours.text),
        *_axes(figure, frame),
    ]
    for line in figure.lines:
        parts += _line(line, frame)
    parts += [_mark(mark, frame) for mark in figure.marks if frame.has(mark)]
    return "\n".join((*parts, "</svg>\n"))


class _Frame:
    """The rectangle inside the axes, and the way from the plot's coordinates into it."""

    def __init__(self, figure: Figure, legend_rows: int) -> None:
        labels = max((len(text) for _, text in figure.y.ticks), default=0)
        self.left = _MARGIN + _LINE + labels * _SMALL * _WIDEST_LETTER + 6
        self.top = _MARGIN + _SIZE + _LINE * (1 + legend_rows) + 14
        self.right = figure.width - _MARGIN
        self.bottom = figure.height - _MARGIN - 2 * _LINE
        self._x, self._y = figure.x, figure.y

    def x(self, position: float) -> float:
        part = (position - self._x.low) / (self._x.high - self._x.low)
        return self.left + part * (self.right - self.left)

    def y(self, value: float) -> float:
        part = (value - self._y.low) / (self._y.high - self._y.low)
        return self.bottom - part * (self.bottom - self.top)

    def has(self, mark: FigureMark) -> bool:
        inside = self._x.low <= mark.x <= self._x.high
        return inside and (mark.y is None or self._y.low <= mark.y <= self._y.high)

    def pieces(self, line: FigureLine) -> Iterator[list[Point]]:
        """Yield the parts of a line that are inside."""
        piece: list[Point] = []
        places = [
            (self.x(x), self.y(y)) if math.isfinite(x) and math.isfinite(y) else None
            for x, y in zip(line.xs, line.ys, strict=True)
        ]
        for start, end in pairwise([*places, None]):
            inside = None
            if start is not None and end is not None:
                inside = self._inside(start, end)
            if inside is None or (piece and piece[-1] != inside[0]):
                if piece:
                    yield piece
                piece = []
            if inside is not None:
                piece = piece or [inside[0]]
                piece.append(inside[1])
        if piece:
            yield piece

    def _inside(self, start: Point, end: Point) -> tuple[Point, Point] | None:
        """Return the part of a segment that is inside; None if it is outside."""
        (x0, y0), (x1, y1) = start, end
        first, last = 0.0, 1.0
        for way, room in (
            (x0 - x1, x0 - self.left),
            (x1 - x0, self.right - x0),
            (y0 - y1, y0 - self.top),
            (y1 - y0, self.bottom - y0),
        ):
            if way == 0:
                if room < 0:
                    return None
            elif way < 0:
                first = max(first, room / way)
            else:
                last = min(last, room / way)
        if first > last:
            return None
        a = start if first == 0 else (x0 + first * (x1 - x0), y0 + first * (y1 - y0))
        b = end if last == 1 else (x0 + last * (x1 - x0), y0 + last * (y1 - y0))
        return a, b

    def held(self, place: Point) -> Point:
        """Return the nearest place inside."""
        x, y = place
        return min(max(x, self.left), self.right), min(max(y, self.top), self.bottom)


def _axes(figure: Figure, frame: _Frame) -> Iterator[str]:
    colours = figure.colours
    for value, text in figure.y.ticks:
        y = frame.y(value)
        if frame.top - 0.5 <= y <= frame.bottom + 0.5:
            yield _segment((frame.left, y), (frame.right, y), colours.grid, 1)
            yield _text(frame.left - 6, y + 0.36 * _SMALL, text, colours.muted, anchor="end")
    corner, end = (frame.left, frame.bottom), (frame.right, frame.bottom)
    yield _segment(corner, end, colours.muted, 1)
    for position, text in figure.x.ticks:
        x = frame.x(position)
        if frame.left - 0.5 <= x <= frame.right + 0.5:
            yield _segment((x, frame.bottom), (x, frame.bottom + 4), colours.muted, 1)
            yield _text(x, frame.bottom + _LINE, text, colours.muted, anchor="middle")
    middle = (frame.left + frame.right) / 2
    yield _text(middle, frame.bottom + 2 * _LINE, figure.x.title, colours.text, anchor="middle")
    x, y = _MARGIN + 0.8 * _SIZE, (frame.top + frame.bottom) / 2
    title = _text(0, 0, figure.y.title, colours.text, anchor="middle")
    yield f'<g transform="translate({_n(x)} {_n(y)}) rotate(-90)">{title}</g>'


def _line(line: FigureLine, frame: _Frame) -> Iterator[str]:
    if line.lower:
        upper, lower = _runs(line, frame), _runs(replace(line, ys=line.lower), frame)
        for above, below in zip(upper, lower, strict=True):
            path = _path(frame.held(each) for each in (*above, *reversed(below)))
            yield f'<path d="{path}Z" fill="{line.base}" fill-opacity="{_n(line.opacity)}"/>'
    elif line.base:
        for run in _runs(line, frame):
            corners = [(run[0][0], frame.bottom), *run, (run[-1][0], frame.bottom)]
            path = _path(frame.held(each) for each in corners)
            yield f'<path d="{path}Z" fill="{line.base}"/>'
    path = "".join(_path(piece) for piece in frame.pieces(line))
    if path and line.width:
        yield (
            f'<path d="{path}" fill="none" stroke="{line.colour}"{_opacity(line.opacity)}'
            f' stroke-width="{_n(line.width)}" stroke-linejoin="round"{_dashes(line.dashes)}/>'
        )
    if line.dot:
        for run in _runs(line, frame):
            for place in run:
                if frame.held(place) == place:
                    yield _dot(place, line.dot / 2, line.colour)


def _runs(line: FigureLine, frame: _Frame) -> Iterator[list[Point]]:
    """Yield the points between two gaps, inside or not."""
    run: list[Point] = []
    for x, y in zip(line.xs, line.ys, strict=True):
        if math.isfinite(x) and math.isfinite(y):
            run.append((frame.x(x), frame.y(y)))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _mark(mark: FigureMark, frame: _Frame) -> str:
    x = frame.x(mark.x)
    title = f"<title>{_escape(mark.text)}</title>" if mark.text else ""
    if mark.y is None:
        ends = f'x1="{_n(x)}" y1="{_n(frame.bottom - _TICK)}" x2="{_n(x)}" y2="{_n(frame.bottom)}"'
        return f'<line {ends} stroke="{mark.colour}" stroke-width="2">{title}</line>'
    y = frame.y(mark.y)
    return (
        f'<path d="{_path((x + a, y + b) for a, b in _STAR)}Z" fill="{mark.colour}">{title}</path>'
    )


Placed = tuple[float, float, FigureLegend]


def _legend_rows(figure: Figure) -> list[list[Placed]]:
    """Return the entries of the legend with their places, in as many rows as they need."""
    rows: list[list[Placed]] = []
    x, y = math.inf, _MARGIN + _SIZE + _LINE
    for entry in figure.legend:
        sign = _SAMPLE + 6 if entry.dashes else 14
        width = sign + len(entry.label) * _SMALL * _WIDEST_LETTER + _SAMPLE
        if x + width > figure.width - _MARGIN:
            rows.append([])
            x, y = _MARGIN, y + _LINE
        rows[-1].append((x, y, entry))
        x += width
    return rows


def _legend(rows: Sequence[Sequence[Placed]], colour: str) -> Iterator[str]:
    for x, y, entry in (each for row in rows for each in row):
        middle = y - 0.36 * _SMALL
        if entry.dashes:
            ends = (x, middle), (x + _SAMPLE, middle)
            yield _segment(*ends, entry.colour, 2, entry.dashes)
            yield _text(x + _SAMPLE + 6, y, entry.label, colour)
        else:
            yield _dot((x + 4, middle), 4, entry.colour)
            yield _text(x + 14, y, entry.label, colour)


def _escape(text: str) -> str:
    return html_escape(_NOT_XML.sub("?", text), quote=False)


def _text(
    x: float,
    y: float,
    text: str,
    colour: str,
    size: float = _SMALL,
    anchor: str = "start",
    weight: int = 400,
) -> str:
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" font-weight="{weight}"'
        f' text-anchor="{anchor}" fill="{colour}">{_escape(text)}</text>'
    )


def _segment(
    start: Point, end: Point, colour: str, width: float, dashes: Sequence[float] = ()
) -> str:
    return (
        f'<line x1="{_n(start[0])}" y1="{_n(start[1])}" x2="{_n(end[0])}" y2="{_n(end[1])}"'
        f' stroke="{colour}" stroke-width="{_n(width)}"{_dashes(dashes)}/>'
    )


def _dot(place: Point, radius: float, colour: str) -> str:
    return f'<circle cx="{_n(place[0])}" cy="{_n(place[1])}" r="{_n(radius)}" fill="{colour}"/>'


def _path(places: Iterator[Point] | Sequence[Point]) -> str:
    return "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in places)


def _dashes(dashes: Sequence[float]) -> str:
    return f' stroke-dasharray="{" ".join(map(_n, dashes))}"' if dashes else ""


def _opacity(opacity: float) -> str:
    return f' stroke-opacity="{_n(opacity)}"' if opacity < 1 else ""


def _n(number: float) -> str:
    """Write a number with at most two decimals."""
    return f"{number:.2f}".rstrip("0").rstrip(".")
