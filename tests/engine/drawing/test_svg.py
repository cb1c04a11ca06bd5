"""The SVG of a figure: what it says, where its lines end, and that no reader needs more than SVG
1.1."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree

import pytest

from engine.drawing.figure import (
    Figure,
    FigureAxis,
    FigureColours,
    FigureLegend,
    FigureLine,
    FigureMark,
)
from engine.drawing.svg import svg

NAME = "{http://www.w3.org/2000/svg}"
COLOURS = FigureColours(background="#ffffff", text="#000000", muted="#777777", grid="#eeeeee")


def figure(**changes: object) -> Figure:
    values: dict[str, object] = {
        "width": 640.0,
        "height": 400.0,
        "title": "Device memory (GiB)",
        "source": "#7 digits",
        "date": "2026-01-31 12:00",
        "x": FigureAxis(title="Step", low=0.0, high=10.0, ticks=[(0.0, "0"), (10.0, "10")]),
        "y": FigureAxis(title="Memory (GiB)", low=0.0, high=1.0, ticks=[(0.5, "0.5")]),
        "lines": [FigureLine(xs=[0, 5, 10], ys=[0.0, 1.0, 0.5], colour="#ff0000")],
        "legend": [FigureLegend(label="GPU 0", colour="#ff0000")],
        "colours": COLOURS,
    }
    return Figure(**{**values, **changes})  # type: ignore[arg-type]


def places(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path)]


def test_it_says_what_it_shows() -> None:
    tree = ElementTree.fromstring(svg(figure()))
    texts = {element.text for element in tree.iter(f"{NAME}text")}
    assert {"Device memory (GiB)", "#7 digits", "2026-01-31 12:00"} <= texts
    assert {"Step", "Memory (GiB)", "GPU 0", "0.5", "10"} <= texts


def test_readers_need_nothing_that_some_do_not_know() -> None:
    text = svg(figure())
    assert "vector-effect" not in text
    kinds = {element.tag.removeprefix(NAME) for element in ElementTree.fromstring(text).iter()}
    assert kinds <= {"svg", "title", "rect", "text", "line", "path", "circle", "g"}
    (dot,) = ElementTree.fromstring(text).iter(f"{NAME}circle")
    assert dot.get("fill") == "#ff0000"


def test_a_line_ends_at_the_edges_and_at_gaps() -> None:
    line = FigureLine(xs=[-10, 5, 6, 7, 20], ys=[0.5, 0.5, math.nan, 0.25, 0.25], colour="#00ff00")
    tree = ElementTree.fromstring(svg(figure(lines=[line])))
    (drawn,) = (each for each in tree.iter(f"{NAME}path") if each.get("stroke") == "#00ff00")
    first, second, third, fourth = places(drawn.get("d", ""))
    assert drawn.get("d", "").count("M") == 2
    ends = [each for each in tree.iter(f"{NAME}line") if each.get("y1") == each.get("y2")]
    left, right = float(ends[0].get("x1", "")), float(ends[0].get("x2", ""))
    assert (first[0], fourth[0]) == (left, right)
    assert first[1] == second[1] < third[1] == fourth[1]


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a & b", "\x00\x0b", "]]>"])
def test_names_are_texts(name: str) -> None:
    legend = [FigureLegend(label=name, colour="#ff0000")]
    tree = ElementTree.fromstring(svg(figure(title=name, source=name, legend=legend)))
    shown = re.sub("[\x00-\x08\x0b]", "?", name)
    assert [each.text for each in tree.iter(f"{NAME}text")].count(shown) == 3


def test_a_mark_outside_is_not_drawn() -> None:
    marks = [
        FigureMark(x=2.0, y=0.5, colour="#0000ff", text="best 0.5"),
        FigureMark(x=20.0, y=0.5, colour="#0000ff"),
        FigureMark(x=3.0, y=None, colour="#00ffff"),
    ]
    text = svg(figure(marks=marks))
    assert (text.count("#0000ff"), text.count("#00ffff")) == (1, 1)
    assert "<title>best 0.5</title>" in text


def test_a_long_legend_has_several_rows() -> None:
    legend = [FigureLegend(label=f"a run with a long name {i}", colour="#ff0000") for i in range(9)]
    tree = ElementTree.fromstring(svg(figure(legend=legend)))
    entries = [each for each in tree.iter(f"{NAME}text") if "long name" in (each.text or "")]
    assert len({each.get("y") for each in entries}) > 1
    assert all(float(each.get("x", "")) < 640 - 100 for each in entries)
