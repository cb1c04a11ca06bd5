"""The images and histograms of a run by series and step, within limits."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from engine.messages.events import HistogramLogged, ImageLogged

MOST_STEPS = 500
"""Steps kept of a series of images; of more, the oldest are left out."""

MOST_AT_A_STEP = 64
"""Images kept of one series at one step."""

MOST_HISTOGRAMS = 256
"""Histograms kept of a series; of more, every second one is left out."""

MOST_BINS = 4096


class Histogram(NamedTuple):
    """How often values lie between two neighbouring edges."""

    step: int
    edges: tuple[float, ...]
    counts: tuple[float, ...]

    @property
    def total(self) -> float:
        """How many values there are."""
        return sum(self.counts)


class ImageSeries:
    """The images of one series, by step."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps: list[int] = []
        """The steps with images, in ascending order."""

        self._images: dict[int, list[ImageLogged]] = {}

    def add(self, image: ImageLogged) -> None:
        """Add an image; a step of an earlier attempt may come again."""
        at_step = self._images.get(image.step)
        if at_step is None:
            insort(self.steps, image.step)
            at_step = self._images[image.step] = []
        if len(at_step) < MOST_AT_A_STEP and all(each.file != image.file for each in at_step):
            at_step.append(image)
        while len(self.steps) > MOST_STEPS:
            del self._images[self.steps.pop(0)]

    def at(self, place: int) -> list[ImageLogged]:
        """Return the images of the step with this index in `steps`."""
        return self._images[self.steps[place]]

    def rewind(self, step: int) -> None:
        """Leave out what was logged after `step`."""
        kept = bisect_right(self.steps, step)
        for dropped in self.steps[kept:]:
            del self._images[dropped]
        del self.steps[kept:]


class HistogramSeries:
    """The histograms of one series, by step."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._kept: list[tuple[int, Histogram]] = []
        """By step, in ascending order, with the place of each among all that were logged."""

        self._stride = 1
        """Every so many are kept, and the newest one."""

    @property
    def histograms(self) -> list[Histogram]:
        """The kept histograms by step, in ascending order."""
        return [histogram for _, histogram in self._kept]

    @property
    def steps(self) -> list[int]:
        """The steps of the kept histograms."""
        return [histogram.step for _, histogram in self._kept]

    def add(self, logged: HistogramLogged) -> None:
        """Add a histogram that is valid; the newest one is always kept."""
        histogram = Histogram(logged.step, tuple(logged.edges), tuple(logged.counts))
        if not is_valid(histogram):
            return
        self.rewind(histogram.step - 1)
        place = self._kept[-1][0] + 1 if self._kept else 0
        if len(self._kept) >= MOST_HISTOGRAMS:
            self._stride *= 2
        self._kept = [each for each in self._kept if each[0] % self._stride == 0]
        self._kept.append((place, histogram))

    def rewind(self, step: int) -> None:
        """Leave out what was logged after `step`."""
        while self._kept and self._kept[-1][1].step > step:
            self._kept.pop()


def is_valid(histogram: Histogram) -> bool:
    """Whether the numbers can be drawn: ascending edges around counts that are not negative."""
    edges, counts = histogram.edges, histogram.counts
    return (
        0 < len(counts) <= MOST_BINS
        and len(edges) == len(counts) + 1
        and all(map(math.isfinite, (*edges, *counts)))
        and all(count >= 0 for count in counts)
        and all(left <= right for left, right in pairwise(edges))
        and edges[0] < edges[-1]
        and math.isfinite(edges[-1] - edges[0])
    )


class Media:
    """All series of a run."""

    def __init__(self) -> None:
        self.images: dict[str, ImageSeries] = {}
        self.histograms: dict[str, HistogramSeries] = {}

    def add(self, events: Iterable[object]) -> set[str]:
        """Add the images and histograms among `events`; return the names of the changed series."""
        changed = set()
        for event in events:
            match event:
                case ImageLogged(series=name):
                    self.images.setdefault(name, ImageSeries(name)).add(event)
                    changed.add(name)
                case HistogramLogged(series=name):
                    self.histograms.setdefault(name, HistogramSeries(name)).add(event)
                    changed.add(name)
                case _:
                    pass
        return changed

    def rewind(self, step: int) -> None:
        """Leave out what was logged after `step`: the run goes on from there."""
        for images in self.images.values():
            images.rewind(step)
        for histograms in self.histograms.values():
            histograms.rewind(step)
