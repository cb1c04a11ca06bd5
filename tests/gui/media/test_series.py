"""Images and histograms by series and step: limits, repeats, and a run that goes back."""

from __future__ import annotations

import itertools
import math

import pytest

from engine.messages.events import HistogramLogged, ImageLogged
from gui.media.series import MOST_AT_A_STEP, MOST_HISTOGRAMS, MOST_STEPS, Histogram, Media, is_valid


def image(step: int, file: str = "", series: str = "samples") -> ImageLogged:
    return ImageLogged(series, step, file or f"media/{step}.png", 8, 8)


def histogram(step: int, counts: tuple[float, ...] = (1.0, 2.0)) -> HistogramLogged:
    edges = [float(each) for each in range(len(counts) + 1)]
    return HistogramLogged("weights", step, edges, list(counts))


def test_images_are_ordered_by_step_and_kept_once() -> None:
    media = Media()
    assert media.add([image(5), image(2), image(5, "media/b.png"), image(5)]) == {"samples"}
    samples = media.images["samples"]
    assert samples.steps == [2, 5]
    assert [each.file for each in samples.at(1)] == ["media/5.png", "media/b.png"]


def test_a_run_that_goes_back_drops_what_came_later() -> None:
    media = Media()
    media.add([image(1), image(9), histogram(1), histogram(9)])
    media.rewind(5)
    media.add([image(6), histogram(6)])
    assert media.images["samples"].steps == [1, 6]
    assert media.histograms["weights"].steps == [1, 6]


def test_there_are_limits_and_the_newest_is_kept() -> None:
    media = Media()
    media.add(image(step) for step in range(MOST_STEPS + 3))
    media.add(image(0, f"media/{number}.png", "many") for number in range(MOST_AT_A_STEP + 5))
    media.add(histogram(step) for step in range(1001))
    assert media.images["samples"].steps == list(range(3, MOST_STEPS + 3))
    assert len(media.images["many"].at(0)) == MOST_AT_A_STEP
    kept = media.histograms["weights"].steps
    assert MOST_HISTOGRAMS / 2 < len(kept) <= MOST_HISTOGRAMS + 1
    assert kept[-1] == 1000
    assert kept == sorted(set(kept))
    gaps = {after - before for before, after in itertools.pairwise(kept)}
    assert max(gaps) <= 2 * min(gaps - {1}, default=1), "evenly, whatever the number"


@pytest.mark.parametrize("number", [300, 511, 512, 513, 700, 2000])
def test_histograms_are_thinned_out_evenly(number: int) -> None:
    media = Media()
    media.add(histogram(step) for step in range(number))
    kept = media.histograms["weights"].steps
    assert kept[-1] == number - 1
    gaps = [after - before for before, after in itertools.pairwise(kept)]
    assert len(set(gaps[:-1])) == 1


@pytest.mark.parametrize(
    ("edges", "counts"),
    [
        ((), ()),
        ((0.0, 1.0), (1.0, 2.0)),
        ((0.0, math.nan, 1.0), (1.0, 2.0)),
        ((0.0, 2.0, 1.0), (1.0, 2.0)),
        ((0.0, 0.5, 1.0), (1.0, -2.0)),
        ((0.0, 0.0), (3.0,)),
        ((-1.7e308, 1.7e308), (3.0,)),
        ((0.0, 1.0), (math.inf,)),
    ],
)
def test_odd_numbers_are_left_out(edges: tuple[float, ...], counts: tuple[float, ...]) -> None:
    assert not is_valid(Histogram(1, edges, counts))
    media = Media()
    media.add([HistogramLogged("weights", 1, list(edges), list(counts))])
    assert media.histograms["weights"].steps == []
